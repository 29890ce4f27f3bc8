"""Codex event messages: what its screen showed. All become system events; some repeat items, some tell of them.

Token counts are here too. Codex writes each at least twice: after the response, and again when the next request goes
out (measured: 86 of 173). ``total_token_usage`` tells: where it did not move, nothing was used.
"""

from __future__ import annotations

from typing import Any, Final

from transparency.records.canonical import AGENT, HUMAN, SYSTEM, TOOL
from transparency.records.codex_items import texts_of
from transparency.records.codex_rollout import Around, Entry, Rollout
from transparency.records.native import count, text
from transparency.records.unit import Unit

EVENT_KINDS: Final = frozenset(
    """
    agent_message agent_message_content_delta agent_message_delta agent_reasoning agent_reasoning_delta
    agent_reasoning_raw_content agent_reasoning_raw_content_delta agent_reasoning_section_break
    apply_patch_approval_request background_event collab_agent_interaction_begin collab_agent_interaction_end
    collab_agent_spawn_begin collab_agent_spawn_end collab_close_begin collab_close_end collab_resume_begin
    collab_resume_end collab_waiting_begin collab_waiting_end context_compacted deprecation_notice
    dynamic_tool_call_request dynamic_tool_call_response elicitation_request entered_review_mode environment_connected
    environment_disconnected error exec_approval_request exec_command_begin exec_command_end exec_command_output_delta
    exited_review_mode guardian_assessment guardian_warning hook_completed hook_started image_generation_begin
    image_generation_end item_completed item_started mcp_startup_complete mcp_startup_update mcp_tool_call_begin
    mcp_tool_call_end model_reroute model_verification patch_apply_begin patch_apply_end patch_apply_updated plan_delta
    plan_update raw_response_completed raw_response_item realtime_conversation_closed
    realtime_conversation_list_voices_response realtime_conversation_realtime realtime_conversation_sdp
    realtime_conversation_started reasoning_content_delta reasoning_raw_content_delta request_permissions
    request_user_input safety_buffering session_configured shutdown_complete stream_error sub_agent_activity
    task_complete task_started terminal_interaction thread_goal_updated thread_name_updated thread_queue_changed
    thread_rolled_back thread_settings_applied token_count turn_aborted turn_complete turn_diff
    turn_moderation_metadata turn_started undo_completed undo_started user_message view_image_tool_call warning
    web_search_begin web_search_end
    """.split()  # noqa: SIM905 - ninety words read better than ninety lines
)

# Event, member that holds the text, kind of item that it repeats, who speaks.
_ECHOES: Final = {
    "user_message": ("message", "user", HUMAN),
    "agent_message": ("message", "assistant", AGENT),
    "agent_reasoning": ("text", "reasoning", AGENT),
    "agent_reasoning_raw_content": ("text", "reasoning", AGENT),
}
# The same in files that page their history: one event for every item, with the item inside.
_ITEM_ECHOES: Final = {
    "UserMessage": ("user", HUMAN),
    "AgentMessage": ("assistant", AGENT),
    "Reasoning": ("reasoning", AGENT),
}
_USAGE: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cached_input_tokens",
    "reasoning": "reasoning_output_tokens",
    "total": "total_tokens",
}


def add_event(rollout: Rollout, unit: Unit, event: dict[str, Any], around: Around) -> None:
    """The entry of one event, and what it says of other entries."""
    kind = text(event, "type")
    if kind is None or kind not in EVENT_KINDS:
        rollout.add_unknown(unit, kind, around.timestamp)
        return
    entry = rollout.add_event(unit, f"codex/{kind}", event, around)
    if kind == "token_count":
        _count_tokens(rollout, event, entry)
    elif kind in _ECHOES:
        member, item_kind, actor = _ECHOES[kind]
        _echo(rollout, entry, kind, item_kind, event.get(member), actor)
    elif kind == "item_completed":
        _completed(rollout, event, entry)
    else:
        _outcome(rollout, event, entry)


def _echo(rollout: Rollout, entry: Entry, source: str, item_kind: str, said: object, actor: str) -> None:
    entry["actor"] = AGENT if actor == HUMAN and rollout.subagent else actor
    if isinstance(said, str):
        rollout.echoes.event(source, item_kind, said, entry)


def _completed(rollout: Rollout, event: dict[str, Any], entry: Entry) -> None:
    item = event.get("item")
    found = _ITEM_ECHOES.get(text(item, "type") or "") if isinstance(item, dict) else None
    if not isinstance(item, dict) or found is None:
        return
    parts = item.get("summary_text") or item.get("raw_content")
    thought = "\n\n".join(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else None
    texts = texts_of(item.get("content"))
    _echo(rollout, entry, "item_completed", found[0], texts[0] if texts else thought, found[1])


def _count_tokens(rollout: Rollout, event: dict[str, Any], entry: Entry) -> None:
    """Give the response the tokens it used, once; without a response (a compaction) the event keeps them."""
    info = event.get("info")
    last = info.get("last_token_usage") if isinstance(info, dict) else None
    if not isinstance(info, dict) or not isinstance(last, dict):
        return
    total = info.get("total_token_usage")
    if total is not None and total == rollout.last_total:
        entry.setdefault("native", {})["duplicate-of"] = rollout.last_count
        return
    rollout.last_total, rollout.last_count = total, entry["id"]
    usage = {name: number for name, member in _USAGE.items() if (number := count(last.get(member))) is not None}
    if usage:
        (rollout.take_response() or entry)["token-usage"] = usage


def _outcome(rollout: Rollout, event: dict[str, Any], entry: Entry) -> None:
    """The end of a command, patch or call: who did it, and whether its result is an error."""
    kind, call_id = event["type"], event.get("call_id")
    failed: bool | None = None
    if kind == "exec_command_end" and type(event.get("exit_code")) is int:
        failed = event["exit_code"] != 0
    elif kind in ("patch_apply_end", "dynamic_tool_call_response") and isinstance(event.get("success"), bool):
        failed = not event["success"]
    elif kind == "mcp_tool_call_end" and isinstance(event.get("result"), dict):
        succeeded = event["result"].get("Ok")
        failed = "Err" in event["result"] or (isinstance(succeeded, dict) and succeeded.get("isError") is True)
    entry["actor"] = TOOL if failed is not None else SYSTEM
    if failed is not None and isinstance(call_id, str):
        rollout.failed[call_id] = failed
