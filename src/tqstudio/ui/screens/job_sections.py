"""The parts of a job's page, each drawn from its detail for a given width."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from textual.strip import Strip

from tqstudio.lifecycle import Step
from tqstudio.ui import format as fmt
from tqstudio.ui.line import fit, wrap
from tqstudio.ui.symbols import EVENT_STATES, job_state, job_word, state_of
from tqstudio.ui.widgets.bars import add_segments
from tqstudio.ui.widgets.job_pane import quality_word

if TYPE_CHECKING:
    from tqstudio.schemas import AttemptView, JobDetail
    from tqstudio.ui.widgets.document import Document

OUTCOME_STATES = {
    "running": "running",
    "done": "done",
    "failed": "failed",
    "lost": "failed",
    "paused": "paused",
    "cancelled": "cancelled",
    "released": "pending",
}
MAX_EVENTS = 30
COMMAND_LINES = 2


def newest_attempt(job: JobDetail) -> AttemptView | None:
    return max(job["attempts_log"], key=lambda attempt: attempt["number"], default=None)


def state(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs = doc.studio.palette, doc.studio.glyphs
    key = job_state(job)
    line = doc.start(width).gap().add(f"{glyphs.states[key]} {job_word(job)}", palette.states[key]).gap(2)
    about = [f"{job['kind']}", f"profile {job['profile']}", f"priority {job['priority']}"]
    if job["status"] == "in_progress":
        about = [(job["step"] or "starting").replace("_", " "), job["worker"] or "", fmt.speed(job["speed"])]
        about += [f"{fmt.clock_duration(job['eta_s'])} left" if job["eta_s"] is not None else ""]
    line.add(", ".join(part for part in about if part), palette.text)
    lines = [line.strip()]
    error = job["error"]
    if error:
        text = wrap(fmt.plain(f"{error['code']}: {error['message']}"), width - 4)
        hint = wrap(fmt.plain(f"{glyphs.arrow} {error['hint']}"), width - 4)
        log = wrap(f"log: {error['log']}", width - 4) if error["log"] else []
        lines += [doc.start(width).gap(2).add(part, palette.error).strip() for part in text]
        lines += [doc.start(width).gap(2).add(part, palette.text).strip() for part in hint]
        lines += [doc.start(width).gap(2).add(part, palette.dim).strip() for part in log]
    return [*lines, doc.blank(width)]


def qualities(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs = doc.studio.palette, doc.studio.glyphs
    attempt = newest_attempt(job)
    kept = attempt["resumed_from"] or 0 if attempt and len(job["attempts_log"]) > 1 else 0
    lines = [doc.heading("Qualities", width, _legend(doc, kept))]
    for rendition in sorted(job["renditions"], key=lambda each: each["status"] == "skipped"):
        key = state_of(rendition["status"])
        line = doc.start(width).cell(rendition["name"], 8, palette.strong, right=True).gap(2)
        word = f"{glyphs.states[key]} {quality_word(rendition)}"
        remark = fmt.plain(rendition["error"] or rendition["reason"] or "")
        if key == "skipped":
            lines.append(line.add(f"{word}: {remark}".rstrip(": "), palette.states[key]).strip())
            continue
        total = rendition["segments_total"]
        pixels = f"{rendition['width']}×{rendition['height']}" if rendition["width"] else ""
        line.cell(word, 11, palette.states[key])
        line.cell(fmt.percent(rendition["progress"]), 5, right=True).gap(2)
        line.cell(f"{rendition['segments_done']}/{total} seg" if total else "", 13, palette.dim)
        if rendition["status"] == "in_progress":
            line.cell(fmt.speed(rendition["speed"]), 7, palette.dim)
            line.cell(fmt.clock_duration(rendition["eta_s"]), 7, palette.dim)
        for part in (pixels, rendition["encoder"] or ""):
            if part and len(part) < line.room:
                line.add(f"{part} ", palette.faint)
        lines.append(line.strip())
        if total:
            strip = doc.start(width).gap(10)
            add_segments(strip, rendition, strip.room - 2, glyphs, palette, resumed_from=kept)
            lines.append(strip.strip())
        if remark:
            style = palette.error if key == "failed" else palette.warning
            lines += [doc.start(width).gap(10).add(part, style).strip() for part in wrap(remark, width - 12)]
    if not job["renditions"]:
        text = "known once the source has been read"
        lines.append(doc.start(width).gap(2).add(text, palette.faint).strip())
    return [*lines, doc.blank(width)]


def _legend(doc: Document, kept: int) -> str:
    glyphs = doc.studio.glyphs
    return f"{glyphs.kept} kept from before" if kept else ""


def steps(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs = doc.studio.palette, doc.studio.glyphs
    attempt = newest_attempt(job)
    took = attempt["steps"] if attempt else {}
    current = job["step"] if job["status"] == "in_progress" else None
    lines = [doc.heading("Steps", width)]
    line = doc.start(width).gap(2)
    for step in Step:
        key = "pending"
        if step.value == current:
            key = "running"
        elif step.value in took or job["status"] == "done":
            key = "done"
        elif job["status"] == "failed" and job["step"] == step.value:
            key = "failed"
        seconds = took.get(step.value)
        word = step.value.replace("_", " ")
        text = f"{glyphs.states[key]} {word}" + (f" {fmt.step_duration(seconds)}" if seconds else "")
        if line.room < len(text) + 4:
            lines.append(line.strip())
            line = doc.start(width).gap(2)
        line.add(text, palette.states[key]).gap(3)
    return [*lines, line.strip(), doc.blank(width)]


def attempts(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs, now = doc.studio.palette, doc.studio.glyphs, doc.studio.model.now()
    used = f"{job['attempts']} of {job['max_attempts']} used"
    if job["crashes"]:
        used += f", {job['crashes']} of {job['max_crashes']} crashes"
    lines = [doc.heading("Attempts", width, used)]
    for attempt in sorted(job["attempts_log"], key=lambda attempt: -attempt["number"]):
        key = OUTCOME_STATES.get(attempt["outcome"], "pending")
        line = doc.start(width).cell(str(attempt["number"]), 4, palette.dim, right=True).gap(2)
        line.cell(f"{glyphs.states[key]} {attempt['outcome']}", 12, palette.states[key])
        line.cell(attempt["worker"], 8, palette.text).gap()
        line.cell(fmt.moment(attempt["started_at"], now), 12, palette.dim)
        from_segment = attempt["resumed_from"]
        more = [attempt["error_code"] or "", f"from segment {from_segment}" if from_segment else ""]
        line.add(", ".join(part for part in more if part), palette.states[key])
        lines.append(line.strip())
    if not job["attempts_log"]:
        lines.append(doc.start(width).gap(2).add("none yet", palette.faint).strip())
    return [*lines, doc.blank(width)]


def command(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    attempt = newest_attempt(job)
    if attempt is None or not attempt["argv"]:
        return []
    palette = doc.studio.palette
    lines = [doc.heading("Commands", width, "y copies, c shows all")]
    for argv in attempt["argv"]:
        short = [argv[0].rpartition("/")[2], *argv[1:]]
        parts = wrap(fmt.plain(shlex.join(short)), width - 4)
        if len(parts) > COMMAND_LINES:
            last = parts[COMMAND_LINES - 1]
            parts = [
                *parts[: COMMAND_LINES - 1],
                fit(last + " " * width, width - 4, doc.studio.glyphs.ellipsis),
            ]
        lines += [doc.start(width).gap(2).add(part, palette.dim).strip() for part in parts]
    return [*lines, doc.blank(width)]


def facts(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    video, source, now = job["video_view"], job["source"], doc.studio.model.now()
    known = [
        ("format", fmt.source_size(source)),
        ("pixels", f"{source['width']}×{source['height']}" if source["width"] else ""),
        ("length", fmt.clock_duration(source["duration_s"])),
        ("size", fmt.size(source["size"])),
        *_streams(video["facts"] or {}),
        ("path", video["path"]),
        ("output", video["output_root"]),
        ("added", fmt.moment(job["created_at"], now)),
        ("started", fmt.moment(job["started_at"], now)),
        ("ended", fmt.moment(job["completed_at"], now)),
        ("by", job["processed_by"] or ""),
    ]
    lines = [doc.heading("Source", width)]
    for name, value in known:
        lines += doc.fact(name, fmt.plain(value), width)
    return [*lines, doc.blank(width)]


def _streams(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Container, picture, sound and subtitles in a line each; all facts are one key away."""
    video = facts.get("video") or {}
    picture = [
        video.get("codec"),
        video.get("profile"),
        video.get("pix_fmt"),
        fmt.bitrate(video.get("bitrate")),
    ]
    picture += ["interlaced" if video.get("interlaced") else "", "variable rate" if video.get("vfr") else ""]
    sound = [
        " ".join(str(part) for part in (a.get("codec"), f"{a.get('channels')} ch", a.get("language")) if part)
        for a in facts.get("audio") or []
    ]
    subtitles = [str(each.get("language") or each.get("codec")) for each in facts.get("subtitles") or []]
    return [
        ("container", str(facts.get("container") or "")),
        ("video", ", ".join(str(part) for part in picture if part)),
        ("audio", ", ".join(sound)),
        ("subtitles", ", ".join(subtitles)),
    ]


def generation(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    made = job["video_view"]["generation"]
    palette = doc.studio.palette
    if made is None:
        return []
    when = fmt.moment(made["published_at"], doc.studio.model.now())
    lines = [doc.heading("Playable", width, f"v{made['number']}, {when}")]
    lines += doc.fact("master", made["master"], width)
    for rendition in made["renditions"]:
        line = doc.start(width).cell(rendition["name"], 14, palette.strong, right=True).gap(2)
        pixels = f"{rendition['width']}×{rendition['height']}" if rendition["width"] else rendition["kind"]
        line.cell(pixels, 11, palette.text)
        line.cell(fmt.bitrate(rendition["average_bps"]), 11, palette.dim, right=True).gap(2)
        line.cell(fmt.size(rendition["size"]), 5, palette.dim, right=True).gap(2)
        lines.append(line.add(rendition["codecs"], palette.faint).strip())
    return [*lines, doc.blank(width)]


def events(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs, now = doc.studio.palette, doc.studio.glyphs, doc.studio.model.now()
    lines = [doc.heading("Events", width, "newest first")]
    for event in job["events"][:MAX_EVENTS]:
        key = EVENT_STATES.get(event["trigger"], "pending")
        line = doc.start(width).gap().cell(fmt.moment(event["at"], now), 12, palette.dim)
        line.cell(f"{glyphs.states[key]} {event['trigger'].replace('_', ' ')}", 17, palette.states[key])
        about = [event["worker"] or "", event["code"] or "", fmt.plain(event["detail"] or "")]
        lines.append(line.add(" ".join(part for part in about if part), palette.text).strip())
    return [*lines, doc.blank(width)]
