"""Sessions written as agents write them, from what was done in a repository; for tests of attribution."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.records.repository import structured
from transparency.records.convert import convert

CREATED = "2026-05-01T12:00:00Z"
FOLDER = "/home/ann/project"
MODEL = "model-large"


def records(data: bytes) -> list[dict[str, Any]]:
    return convert(data, created=CREATED)


def record(data: bytes) -> dict[str, Any]:
    (only,) = records(data)
    return only


def lines(made: dict[str, Any], path: str) -> dict[int, str | None]:
    """The model of every attributed line of a file."""
    return {
        line: conversation["contributor"].get("model-id")
        for file in made.get("file-attribution", {"files": []})["files"]
        if file["path"] == path
        for conversation in file["conversations"]
        for found in conversation["ranges"]
        for line in range(found["start-line"], found["end-line"] + 1)
    }


@dataclass
class Claude:
    """A Claude Code session: each call a line, each result a line."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    whole_texts: bool = True

    def data(self) -> bytes:
        return b"".join(json.dumps(row).encode() + b"\n" for row in self.rows)

    def call(
        self, name: str, given: dict[str, Any], result: object = None, *, failed: bool = False, model: str = MODEL,
        answered: bool = True,
    ) -> None:  # fmt: skip
        number = len(self.rows)
        stamp = f"2026-05-01T10:{number // 60 % 60:02}:{number % 60:02}.000Z"
        shared = {"sessionId": "s-1", "cwd": FOLDER, "version": "2.0.0", "gitBranch": "main", "timestamp": stamp}
        use = {"type": "tool_use", "id": f"call-{number}", "name": name, "input": given}
        message = {"role": "assistant", "model": model, "content": [use]}
        self.rows.append({"type": "assistant", "uuid": f"u{number}", "parentUuid": None, **shared, "message": message})
        if not answered:
            return
        block = {"type": "tool_result", "tool_use_id": f"call-{number}", "content": "ok", "is_error": failed}
        answer = {"role": "user", "content": [block]}
        self.rows.append(
            {"type": "user", "uuid": f"r{number}", "parentUuid": f"u{number}", **shared, "message": answer}
            | ({"toolUseResult": result} if result is not None else {})
        )

    def edit(self, path: str, before: str, diff: str, *, model: str = MODEL) -> None:
        where = f"{FOLDER}/{path}"
        result: dict[str, Any] = {"filePath": where, "structuredPatch": structured(diff), "userModified": False}
        result |= {"originalFile": before} if self.whole_texts else {}
        self.call("Edit", {"file_path": where, "old_string": "?", "new_string": "?"}, result, model=model)

    def create(self, path: str, content: str) -> None:
        self.create_at(f"{FOLDER}/{path}", content)

    def create_at(self, where: str, content: str = "x\n") -> None:
        """At a path as it is given, wherever that leads."""
        result: dict[str, Any] = {
            "type": "create",
            "filePath": where,
            "content": content,
            "structuredPatch": [],
            "originalFile": None,
        }
        self.call("Write", {"file_path": where, "content": content}, result)

    def shell(self, command: str) -> None:
        self.call("Bash", {"command": command}, {"stdout": "", "stderr": ""})


@dataclass
class Codex:
    """A Codex rollout."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.row("session_meta", {"id": "s-codex", "cwd": FOLDER, "cli_version": "1", "model_provider": "openai"})
        self.turn()

    def turn(self, model: str = MODEL) -> None:
        self.row("turn_context", {"model": model, "cwd": FOLDER})

    def data(self) -> bytes:
        return b"".join(json.dumps(row).encode() + b"\n" for row in self.rows)

    def row(self, kind: str, payload: dict[str, Any]) -> None:
        number = len(self.rows)
        stamp = f"2026-05-01T10:{number // 60 % 60:02}:{number % 60:02}.000Z"
        self.rows.append({"timestamp": stamp, "type": kind, "payload": payload})

    def patch(self, text: str, changes: dict[str, Any] | None = None, *, output: str | None = None) -> None:
        call_id = f"call-{len(self.rows)}"
        self.row(
            "response_item", {"type": "custom_tool_call", "name": "apply_patch", "input": text, "call_id": call_id}
        )
        if changes is not None:
            end = {"type": "patch_apply_end", "call_id": call_id, "success": True, "changes": changes}
            self.row("event_msg", {**end, "stdout": "", "stderr": "", "status": "completed"})
        said = output or json.dumps({"output": "Success.", "metadata": {"exit_code": 0}})
        self.row("response_item", {"type": "custom_tool_call_output", "call_id": call_id, "output": said})

    def edit(self, path: str, before: str, diff: str) -> None:
        hunks = diff[diff.index("@@") :]
        change = {"type": "update", "unified_diff": hunks, "move_path": None}
        self.patch("*** Begin Patch\n*** End Patch", {f"{FOLDER}/{path}": change})

    def create(self, path: str, content: str) -> None:
        self.patch("*** Begin Patch\n*** End Patch", {f"{FOLDER}/{path}": {"type": "add", "content": content}})

    def shell(self, command: str) -> None:
        call_id = f"call-{len(self.rows)}"
        given = json.dumps({"cmd": command})
        self.row(
            "response_item", {"type": "function_call", "name": "exec_command", "arguments": given, "call_id": call_id}
        )
        output = "Process exited with code 0\nOutput:\n"
        self.row("response_item", {"type": "function_call_output", "call_id": call_id, "output": output})


@dataclass
class Gemini:
    """A Gemini CLI session in one document. It has no working directory: paths stay whole."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    def data(self) -> bytes:
        times = {"startTime": "2026-05-01T10:00:00.000Z", "lastUpdated": "2026-05-01T11:00:00.000Z"}
        return json.dumps({"sessionId": "s-g", "projectHash": "00", **times, "messages": self.messages}).encode()

    def call(self, name: str, given: dict[str, Any], output: str, shown: object = None) -> None:
        number = len(self.messages)
        call_id = f"{name}-{number}"
        response = {"functionResponse": {"id": call_id, "name": name, "response": {"output": output}}}
        call = {"id": call_id, "name": name, "args": given, "result": [response], "status": "success"}
        stamp = f"2026-05-01T10:{number // 60 % 60:02}:{number % 60:02}.000Z"
        self.messages.append(
            {
                "id": f"m{number}", "type": "gemini", "model": MODEL, "timestamp": stamp, "content": "",
                "toolCalls": [call | ({"resultDisplay": shown} if shown is not None else {})],
            }
        )  # fmt: skip

    def edit(self, path: str, before: str, diff: str) -> None:
        shown = {"fileDiff": diff, "fileName": path, "originalContent": before}
        self.call("replace", {"file_path": path, "old_string": "?", "new_string": "?"}, "done", shown)

    def create(self, path: str, content: str) -> None:
        said = f"Successfully created and wrote to new file: {path}."
        self.call("write_file", {"file_path": path, "content": content}, said)

    def shell(self, command: str) -> None:
        self.call("run_shell_command", {"command": command}, "")
