"""Prompts: chat rendering, hints and lessons, action parsing and resolution, what teachers are asked."""

from turnpoint.prompts.analysis import recovery_messages, report_messages, transcript
from turnpoint.prompts.chat import ChatRenderer
from turnpoint.prompts.hints import (
    GENERIC_REFLECTION,
    REMARK_LIMIT,
    PrivilegedTextError,
    assert_unhinted,
    correction_text,
    hint_text,
    insert_hint,
    insert_lesson,
    leaks,
    lesson_text,
    remark_text,
)
from turnpoint.prompts.prompter import Prompter
from turnpoint.prompts.reflection import (
    ReflectionReply,
    parse_reflection,
    reflection_messages,
    reflection_reply,
)
from turnpoint.prompts.reply import drop_reasoning, parse_action
from turnpoint.prompts.report import Candidate, Report, parse_recovery, parse_report
from turnpoint.prompts.resolve import Level, Resolution, resolve_action, same_action
from turnpoint.prompts.settings import PromptSettings

__all__ = [
    "GENERIC_REFLECTION",
    "REMARK_LIMIT",
    "Candidate",
    "ChatRenderer",
    "Level",
    "PrivilegedTextError",
    "PromptSettings",
    "Prompter",
    "ReflectionReply",
    "Report",
    "Resolution",
    "assert_unhinted",
    "correction_text",
    "drop_reasoning",
    "hint_text",
    "insert_hint",
    "insert_lesson",
    "leaks",
    "lesson_text",
    "parse_action",
    "parse_recovery",
    "parse_reflection",
    "parse_report",
    "recovery_messages",
    "reflection_messages",
    "reflection_reply",
    "remark_text",
    "report_messages",
    "resolve_action",
    "same_action",
    "transcript",
]
