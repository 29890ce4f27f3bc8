"""One command on one real session: detect, check, convert, sign, upload and register; its time and its memory.

A real server in one process, ``transparency submit SESSION --convert`` in another. The session is the file given, or
one made here of the size and shape of a 1.8 MB Claude Code session. Beside it stands what nobody can avoid: hashing the
file and signing once.

    python benchmarks/session.py [SESSION]
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._common import ES256, ISS
from transparency.cose.keys import PrivateKey

TRANSPARENCY = [sys.executable, "-m", "transparency"]
LINES = 350
LINE_BYTES = 5_000


def made_session(path: Path) -> None:
    """A Claude Code session: a question, then tool calls and their results in turn."""
    lines = []
    for number in range(LINES):
        tool = {"type": "tool_use", "id": f"call-{number}", "name": "Bash", "input": {"command": "ls " * 200}}
        result = {"type": "tool_result", "tool_use_id": f"call-{number - 1}", "content": "x" * LINE_BYTES}
        role = "assistant" if number % 2 else "user"
        content: object = [tool] if number % 2 else ([result] if number else "please")
        message = {"role": role, "content": content, "model": "claude-x", "id": f"m{number}"}
        lines.append(
            json.dumps({
                "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": "bench", "cwd": "/work", "version": "1", "message": message,
                "timestamp": f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}.000Z",
            })
        )  # fmt: skip
    path.write_text("\n".join(lines) + "\n")


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds and peak memory (bytes) of a child."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        assert child.stderr is not None
        raise SystemExit(f"the command failed: {child.stderr.read().decode()}")
    return seconds, usage.ru_maxrss * 1024


def main() -> None:
    key = PrivateKey.generate(ES256)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = folder / "session.jsonl"
        if len(sys.argv) > 1:
            session.write_bytes(Path(sys.argv[1]).read_bytes())
        else:
            made_session(session)
        (folder / "issuer.pem").write_bytes(key.to_pem())
        (folder / "issuer.pem").chmod(0o600)
        (folder / "issuer.pub.pem").write_bytes(key.public.to_pem())
        for command in (
            ["init", "--data", str(folder / "log")],
            ["issuer", "add", "--data", str(folder / "log"), "--iss", ISS, "--key", str(folder / "issuer.pub.pem")],
        ):
            subprocess.run([*TRANSPARENCY, *command], check=True, capture_output=True)
        server = subprocess.Popen(
            [*TRANSPARENCY, "serve", "--data", str(folder / "log"), "--host", "127.0.0.1", "--port", "0", "--open"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            start, _ = measured([*TRANSPARENCY, "submit", "--help"])
            seconds, peak = measured(
                [*TRANSPARENCY, "submit", str(session), "--log", url, "--key", str(folder / "issuer.pem"),
                 "--iss", ISS, "--convert"]
            )  # fmt: skip
        finally:
            server.terminate()
            server.wait(30)
        data = session.read_bytes()
        began = time.perf_counter()
        key.sign(hashlib.sha256(data).digest())
        least = time.perf_counter() - began
    lines = data.count(b"\n")
    print(f"{len(data):,} bytes, {lines:,} lines: {seconds:.2f} s, of which {start:.2f} s start the command;")
    print(f"peak memory {peak / 2**20:.0f} MiB; hashing and one signature alone: {least * 1000:.1f} ms")


if __name__ == "__main__":
    main()
