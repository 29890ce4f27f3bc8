"""File attribution: what counts as an edit, how it is followed, and what is declared instead of guessed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.records.conversions import assert_repeatable
from tests.records.sessions import FOLDER, MODEL, Claude, Codex, Gemini, lines, record, records
from transparency.records.detect import detect
from transparency.records.shells import command_of
from transparency.records.vac_check import check_vac

FIXTURES = Path(__file__).parents[1] / "fixtures" / "records"
OLD = "one\ntwo\nthree\nfour\n"
DIFF = "--- a\n+++ b\n@@ -1,4 +1,5 @@\n one\n-two\n+TWO\n+2\n three\n four\n"


def reasons(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["tool"], each["reason"]) for each in made["session"].get("not-attributed", [])]


def test_a_confirmed_edit_gives_ranges_with_the_model_of_its_response_and_the_hash_of_its_text() -> None:
    session = Claude()
    session.edit("app.py", OLD, DIFF, model="model-small")

    made = record(session.data())

    assert made["file-attribution"] == {
        "files": [
            {
                "path": "app.py",
                "conversations": [
                    {
                        "contributor": {"type": "ai", "model-id": "model-small"},
                        "ranges": [
                            {
                                "start-line": 2,
                                "end-line": 3,
                                "content-hash": hashlib.sha256(b"TWO\n2").hexdigest(),
                                "content-hash-alg": "sha-256",
                            }
                        ],
                    }
                ],
            }
        ]
    }
    assert "not-attributed" not in made["session"]
    assert check_vac(made).is_valid("-00")
    assert_repeatable(session.data(), detect(session.data()))


def test_an_edit_that_failed_or_was_never_answered_is_not_attributed() -> None:
    session = Claude()
    given = {"file_path": f"{FOLDER}/app.py", "content": "x\n"}
    created = {"type": "create", "filePath": f"{FOLDER}/app.py", "content": "x\n", "structuredPatch": []}
    session.call("Write", given, created, failed=True)
    session.call("Write", given, answered=False)

    made = record(session.data())

    assert "file-attribution" not in made
    assert made["session"]["not-attributed"] == [
        {"call-id": "call-2", "tool": "Write", "reason": "unconfirmed", "path": "app.py"}
    ]


def test_lines_of_two_models_are_two_conversations_and_the_later_writes_over_the_earlier() -> None:
    session = Claude()
    session.create("app.py", "a\nb\nc\n")
    session.edit("app.py", "a\nb\nc\n", "@@ -2 +2,2 @@\n-b\n+B\n+BB\n", model="model-small")

    assert lines(record(session.data()), "app.py") == {1: MODEL, 2: "model-small", 3: "model-small", 4: MODEL}


def test_an_edit_that_a_person_changed_is_mixed() -> None:
    session = Claude()
    session.edit("app.py", OLD, DIFF)
    session.rows[1]["toolUseResult"]["userModified"] = True

    (file,) = record(session.data())["file-attribution"]["files"]

    assert file["conversations"][0]["contributor"] == {"type": "mixed", "model-id": MODEL}


def test_what_others_changed_between_two_edits_is_nobodys_here() -> None:
    session = Claude()
    session.create("app.py", "a\nb\nc\n")
    session.edit("app.py", "new\na\nB\nc\n", "@@ -4 +4,2 @@\n c\n+d\n")

    assert sorted(lines(record(session.data()), "app.py")) == [2, 4, 5]


def test_an_edit_that_contradicts_what_is_known_ends_what_was_known() -> None:
    session = Claude(whole_texts=False)
    session.edit("app.py", "", "@@ -0,0 +1,2 @@\n+a\n+b\n")
    session.edit("app.py", "", "@@ -1,2 +1,3 @@\n x\n y\n+z\n")

    assert sorted(lines(record(session.data()), "app.py")) == [3]


def test_texts_of_the_call_are_placed_where_the_file_is_known() -> None:
    session = Claude()
    session.create("app.py", "a\nb\nc\n")
    session.call("Edit", {"file_path": f"{FOLDER}/app.py", "old_string": "b\n", "new_string": "x\ny\n"}, model="other")
    found = lines(record(session.data()), "app.py")
    assert found == {1: MODEL, 2: "other", 3: "other", 4: MODEL}

    session.call("Edit", {"file_path": f"{FOLDER}/app.py", "old_string": "nowhere", "new_string": "z"})
    made = record(session.data())
    assert lines(made, "app.py") == {}
    assert reasons(made) == [("Edit", "no-lines")]


def test_after_a_command_that_may_have_written_a_text_is_not_searched_for() -> None:
    session = Claude()
    session.create("app.py", "a\nb\nc\n")
    session.shell("make format")
    session.call("Edit", {"file_path": f"{FOLDER}/app.py", "old_string": "b\n", "new_string": "x\n"})

    made = record(session.data())

    assert lines(made, "app.py") == {}
    assert reasons(made) == [("Bash", "shell"), ("Edit", "no-lines")]


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("sed -i s/a/b/ app.py", "sed -i"),
        ("echo x > app.py", "redirection"),
        ("cat <<EOF >> app.py\nx\nEOF", "redirection"),
        ('python3 -c \'open("app.py", "w").write(1)\'', "python"),
        ("python3 - <<'E'\nfrom pathlib import Path\nPath('a').write_text('x')\nE", "python"),
        ("ls | tee app.py", "tee"),
        ("git checkout app.py", "git"),
        ("git apply fix.patch", "patch"),
        ("cd x && mv a b", "cp, mv, rm"),
        ("perl -pi -e s/a/b/ app.py", "perl -i"),
        ("make", None),
        ("npm run build", None),
        ("./run.sh", None),
        ("ls $(touch app.py)", "cp, mv, rm"),
        ("find . -name '*.o' -delete", None),
        ("sort -o app.py app.py", None),
    ],
)
def test_commands_that_write_or_may_are_declared_with_what_shows_it(command: str, shows: str | None) -> None:
    session = Claude()
    session.shell(command)

    made = record(session.data())

    assert "file-attribution" not in made
    expected = {"call-id": "call-0", "tool": "Bash", "reason": "shell"} | ({"shows": shows} if shows else {})
    assert made["session"]["not-attributed"] == [expected]


@pytest.mark.parametrize(
    "command",
    [
        "ls -la src", "cat a b | grep -n x 2>/dev/null | head -5", "git status && git diff HEAD~1 -- app.py",
        "sed -n '1,40p' app.py", "rg -n foo src 2>&1", "cd src && pwd", "wc -l app.py; echo done",
    ],
)  # fmt: skip
def test_commands_that_plainly_read_are_passed_over(command: str) -> None:
    session = Claude()
    session.shell(command)

    assert "not-attributed" not in record(session.data())["session"]


def test_a_command_is_read_in_every_form_that_agents_give_it() -> None:
    forms: list[Any] = ["sed -i x y", ["sed", "-i", "x", "y"], {"command": ["bash", "-lc", "sed -i x y"]}]
    forms += [{"cmd": "sed -i x y"}, {"action": {"type": "exec", "command": ["sed", "-i", "x", "y"]}}]
    for given in forms:
        found = command_of("shell", given)
        assert found is not None
        assert found.shows == "sed -i"
    assert command_of("Read", {"command": "sed -i"}) is None
    unreadable = command_of("shell", {"command": [1]})
    assert unreadable is not None
    assert not unreadable.only_reads


@pytest.mark.parametrize("path", ["/etc/passwd", "../../outside.py", f"{FOLDER}/../other/app.py", "C:\\Windows\\x.ini"])
def test_paths_that_lead_out_of_the_working_directory_are_kept_as_given_and_flagged(path: str) -> None:
    session = Claude()
    session.create_at(path)
    session.create("src/inside.py", "y\n")

    made = record(session.data())

    assert [file["path"] for file in made["file-attribution"]["files"]] == [path, "src/inside.py"]
    assert made["session"]["attributed-outside"] == [path]


def test_codex_patches_without_numbers_are_placed_by_their_context_or_not_at_all() -> None:
    session = Codex()
    session.patch("*** Begin Patch\n*** Add File: app.py\n+a\n+b\n+a\n+c\n*** End Patch")
    session.turn("other")
    session.patch("*** Begin Patch\n*** Update File: app.py\n@@\n b\n-a\n+A\n*** End Patch")
    assert lines(record(session.data()), "app.py") == {1: MODEL, 2: MODEL, 3: "other", 4: MODEL}

    session.patch("*** Begin Patch\n*** Update File: elsewhere.py\n@@\n-x\n+y\n*** End Patch")
    made = record(session.data())
    assert lines(made, "elsewhere.py") == {}
    assert reasons(made) == [("apply_patch", "no-lines")]


def test_codex_patches_that_were_not_applied_do_not_count() -> None:
    session = Codex()
    session.patch(
        "*** Begin Patch\n*** Add File: app.py\n+a\n*** End Patch", output="apply_patch verification failed: no"
    )
    session.patch(
        "*** Begin Patch\n*** Add File: b.py\n+a\n*** End Patch", output='{"output":"","metadata":{"exit_code":1}}'
    )

    made = record(session.data())

    assert "file-attribution" not in made
    assert reasons(made) == [("apply_patch", "unconfirmed")]


def test_codex_patches_are_found_in_commands_too_and_moves_and_deletions_are_followed() -> None:
    session = Codex()
    patch = "*** Begin Patch\n*** Add File: a.py\n+a\n+b\n*** Add File: gone.py\n+x\n*** End Patch"
    session.shell(f"apply_patch <<'EOF'\n{patch}\nEOF")
    session.patch(
        "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@\n-a\n+A\n*** Delete File: gone.py\n*** End Patch"
    )

    made = record(session.data())

    assert [file["path"] for file in made["file-attribution"]["files"]] == ["b.py"]
    assert sorted(lines(made, "b.py")) == [1, 2]
    assert reasons(made) == []


def test_the_diff_of_a_codex_turn_places_its_patches() -> None:
    session = Codex()
    for old, new in (("one", "ONE"), ("two", "TWO")):
        session.patch(f"*** Begin Patch\n*** Update File: app.py\n@@\n-{old}\n+{new}\n*** End Patch")
    diff = "diff --git a/app.py b/app.py\n--- a/app.py\n+++ b/app.py\n@@ -7,3 +7,3 @@\n-one\n+ONE\n x\n-two\n+TWO\n"
    session.row("event_msg", {"type": "turn_diff", "unified_diff": diff})
    assert sorted(lines(record(session.data()), "app.py")) == [7, 9]

    session.shell("make format")
    made = record(session.data())
    assert lines(made, "app.py") == {}, "the turn's diff may hold what the command wrote"


def test_gemini_paths_are_those_its_tool_resolved() -> None:
    session = Gemini()
    session.call(
        "write_file",
        {"file_path": "r.c", "content": "a\nb\n"},
        "Successfully created and wrote to new file: /work/x/r.c.",
    )
    given = {"file_path": "/work/x/r.c", "old_string": "b", "new_string": "c"}
    session.call("replace", given, "Successfully modified file: /work/x/r.c (1 replacements).")

    made = record(session.data())

    assert [file["path"] for file in made["file-attribution"]["files"]] == ["/work/x/r.c"]
    assert made["session"]["attributed-outside"] == ["/work/x/r.c"], "Gemini does not say where it worked"


def test_gemini_overwriting_a_file_nobody_showed_is_not_attributed() -> None:
    session = Gemini()
    session.call("write_file", {"file_path": "/w/r.c", "content": "a\n"}, "Successfully overwrote file: /w/r.c.")

    assert reasons(record(session.data())) == [("write_file", "no-lines")]


def test_edits_of_messages_that_gemini_took_back_are_declared() -> None:
    call = {"id": "w-1", "name": "write_file", "args": {"file_path": "/w/a", "content": "x\n"}, "status": "success"}
    answer = {"functionResponse": {"response": {"output": "Successfully created and wrote to new file: /w/a."}}}
    rows: list[dict[str, Any]] = [
        {"sessionId": "s", "projectHash": "0", "startTime": "2026-05-01T10:00:00.000Z"},
        {"id": "m1", "type": "gemini", "model": MODEL, "content": "", "toolCalls": [call | {"result": [answer]}]},
    ]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    assert sorted(lines(record(data), "/w/a")) == [1]

    made = record(data + b'{"$rewindTo":"m1"}\n')
    assert "file-attribution" not in made
    assert reasons(made) == [("write_file", "rewound")]


def opencode(*tools: dict[str, Any]) -> bytes:
    parts = [
        {
            "id": f"prt_{number}",
            "type": "tool",
            "messageID": "msg_1",
            "sessionID": "ses_1",
            "callID": f"c{number}",
            **tool,
        }
        for number, tool in enumerate(tools)
    ]
    message = {
        "id": "msg_1", "sessionID": "ses_1", "role": "assistant", "modelID": MODEL, "providerID": "p",
        "time": {"created": 1770738140000}, "path": {"cwd": FOLDER},
    }  # fmt: skip
    info = {"id": "ses_1", "version": "1", "time": {"created": 1770738140000, "updated": 1770738150000}}
    return json.dumps({"info": info, "messages": [{"info": message, "parts": parts}]}).encode()


def test_opencode_texts_before_and_after_give_lines_by_the_model_of_the_message() -> None:
    metadata = {"filediff": {"file": f"{FOLDER}/app.py", "before": OLD, "after": "one\nTWO\n2\nthree\nfour\n"}}
    given = {"filePath": f"{FOLDER}/app.py", "oldString": "two", "newString": "TWO\n2"}
    state = {"status": "completed", "input": given, "output": "ok", "metadata": metadata}
    files = [
        {"filePath": f"{FOLDER}/new.py", "type": "add", "before": "", "after": "n\n"},
        {"filePath": f"{FOLDER}/app.py", "type": "update", "diff": "@@ -1 +1,2 @@\n+zero\n one\n"},
    ]
    patch = {"status": "completed", "input": {"patchText": "…"}, "output": "ok", "metadata": {"files": files}}
    failed = {"status": "error", "input": given, "error": "no", "metadata": metadata}

    made = record(
        opencode(
            {"tool": "edit", "state": state}, {"tool": "edit", "state": failed}, {"tool": "apply_patch", "state": patch}
        )
    )

    assert lines(made, "app.py") == {1: MODEL, 3: MODEL, 4: MODEL}
    assert lines(made, "new.py") == {1: MODEL}


def test_agentlog_diffs_count_only_if_they_are_real() -> None:
    made = record((FIXTURES / "agentlog" / "every-event.agentlog.json").read_bytes())

    assert lines(made, "heater.py") == {2: "m-large", 3: "m-large"}
    assert ("terminal", "shell") in reasons(made)


def test_cursor_has_no_results_so_nothing_is_confirmed() -> None:
    (made,) = records((FIXTURES / "cursor" / "tool-use.jsonl").read_bytes())

    assert "file-attribution" not in made
    assert all(reason in ("unconfirmed", "shell") for _, reason in reasons(made))
    assert all("source-ref" in each for each in made["session"].get("not-attributed", []) if "call-id" not in each)


def test_results_of_the_wrong_shape_are_not_believed_and_do_not_fail() -> None:
    odd: list[Any] = [None, 5, "x", [], {}, {"filePath": 3}, {"filePath": f"{FOLDER}/a", "structuredPatch": [{}, 1]}]
    odd += [{"filePath": f"{FOLDER}/a", "structuredPatch": {}, "originalFile": 7, "content": []}]
    for result in odd:
        for tool in ("Edit", "Write", "MultiEdit", "NotebookEdit", "Bash"):
            session = Claude()
            session.call(tool, {"file_path": f"{FOLDER}/a", "edits": 3, "content": 1, "command": {}}, result)
            made = record(session.data())
            assert "file-attribution" not in made
            assert len(reasons(made)) == 1


def test_many_small_edits_of_a_large_file_end_in_bounded_time() -> None:
    session = Claude(whole_texts=False)
    session.create("big.txt", "line\n" * 100_000)
    for _ in range(2_000):
        session.edit("big.txt", "", "@@ -1 +1,2 @@\n+x\n line\n")
        session.edit("big.txt", "", "@@ -1,2 +1 @@\n-x\n line\n")

    made = record(session.data())

    assert "not-attributed" in made["session"]
    assert {reason for _, reason in reasons(made)} == {"too-much"}
