"""The sections of the job screen, each drawn from the job's detail for a given width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.style import Style
from textual.strip import Strip

from tqstudio import shell_quoting, units
from tqstudio.errors import in_one_line
from tqstudio.lifecycle import Step
from tqstudio.paths import is_bucket, readable
from tqstudio.ui.drawings.bars import add_segments
from tqstudio.ui.look.line import fit, width_of, wrap
from tqstudio.ui.screens.job.source_facts import channels_word, language_word
from tqstudio.ui.widgets.line_view import link
from tqstudio.words import format as fmt
from tqstudio.words import sentences
from tqstudio.words.symbols import job_state, job_word, quality_look

if TYPE_CHECKING:
    from tqstudio.protocol.answers import AttemptView, JobDetail, RenditionView
    from tqstudio.ui.look.theme import Colours
    from tqstudio.ui.widgets.document import Document
    from tqstudio.words.symbols import Glyphs

OUTCOMES = {
    "running": ("running", "running"),
    "done": ("done", "done"),
    "failed": ("failed", "failed"),
    "lost": ("failed", "worker died"),
    "paused": ("paused", "paused"),
    "cancelled": ("cancelled", "cancelled"),
    "released": ("pending", "returned"),
}
"""State and word for the outcome of an attempt."""
ERROR_LINES = 2
"""Lines of an attempt's error; its log contains all of it."""
MAX_EVENTS = 30
COMMAND_LINES = 2


def newest_attempt(job: JobDetail) -> AttemptView | None:
    return max(job["attempts_log"], key=lambda attempt: attempt["number"], default=None)


def state(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    model, palette, glyphs = doc.context.model, doc.context.palette, doc.context.glyphs
    stale = model.stale
    key = job_state(job, stale=stale)
    word = job_word(job, model.detail_age_s, stale=stale)
    line = doc.start(width).gap().add(f"{glyphs.states[key]} {word}", palette.states[key]).gap(2)
    if job["renditions"]:
        line.add(fmt.percent(job["progress"]), palette.strong).gap(2)
    waits = "" if stale else sentences.status_text(job, model.gates, doc.context.sign)
    plays = sentences.viewable_words(job)
    plays = plays and f"{glyphs.states['viewable']} {plays}"
    now = ", ".join(filter(None, (waits, plays)))
    about = [sentences.kind_words(job), f"profile {job['profile']}", f"priority {job['priority']}"]
    if job["status"] == "in_progress":
        eta = f"{fmt.with_range(job['eta'])} left" if job["eta"] and not stale else ""
        speed = "" if stale else fmt.speed(job["speed"])
        step = (job["step"] or "starting").replace("_", " ")
        now = ", ".join(filter(None, (step, speed, eta, plays, waits)))
        about = [f"on {sentences.worker_words(job)}" if job["worker"] else "", *about]
    first, *rest = wrap(now, line.room - 1) or [""]
    lines = [line.add(first, palette.text).strip()]
    changes = "" if job["word"] == "changed" else ", ".join(sentences.changes(job))
    below = [(" ".join(rest), palette.text), (changes and f"changed: {changes}", palette.text)]
    below += _error(job, glyphs.arrow, palette, doc.context.sign("log"))
    below += [
        (f"{glyphs.states['warning']} {each['code']}: {each['text']}", palette.warning)
        for each in job["warnings"]
    ]
    if job["status"] in ("pending", "in_progress", "paused", "failed"):
        below.append((sentences.autorestart_words(job["autorestart"], model.now()), palette.text))
    below.append((", ".join(filter(None, (sentences.attempt_words(job), *about))), palette.dim))
    for text, style in below:
        lines += doc.paragraph(text, width, style)
    return [*lines, doc.blank(width)]


def _error(job: JobDetail, arrow: str, palette: Colours, key: str) -> list[tuple[str, Style]]:
    """Code and message, hint, and the path of the log."""
    error = sentences.error_now(job)
    if error is None:
        return []
    log = f"{key} opens the log: {error['log']}" if error["log"] else ""
    return [
        (f"{error['code']}: {error['message']}", palette.error),
        (f"{arrow} {error['hint']}", palette.text),
        (log, palette.dim),
    ]


def qualities(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs, stale = doc.context.palette, doc.context.glyphs, doc.context.model.stale
    attempt = newest_attempt(job)
    kept = attempt["resumed_from"] or 0 if attempt else 0
    division = job["division"] if job["status"] == "in_progress" else None
    lines = [doc.heading("Qualities", width, _legend(job, kept, glyphs))]
    made = [each for each in job["renditions"] if each["status"] != "skipped"]
    column = max([8, *(len(each["name"]) for each in made)])
    for rendition in made:
        key, word = quality_look(rendition, job["status"], stale=stale)
        line = doc.start(width).cell(rendition["name"], column, palette.strong, right=True).gap(2)
        total = rendition["segments_total"]
        pixels = f"{rendition['width']}×{rendition['height']}" if rendition["width"] else ""
        line.cell(f"{glyphs.states[key]} {word}", 12, palette.states[key])
        line.cell(fmt.percent(rendition["progress"]), 5, right=True).gap(2)
        line.cell(f"{rendition['segments_done']}/{total} seg" if total else "", 13, palette.dim)
        if key == "running":
            line.cell(fmt.speed(rendition["speed"]), 7, palette.dim)
            line.cell(fmt.clock_duration(rendition["eta_s"]), 7, palette.dim)
        elif took := _took(rendition):
            line.cell(took, 14, palette.dim)
        for part in (pixels, rendition["encoder"] or ""):
            if part and len(part) < line.room:
                line.add(f"{part} ", palette.faint)
        lines.append(line.strip())
        if total:
            strip = doc.start(width).gap(column + 2)
            shared = division if division and rendition["name"] in division["renditions"] else None
            add_segments(
                *(strip, rendition, strip.room - 2, glyphs, palette),
                resumed_from=kept,
                state=key,
                division=shared,
            )
            lines.append(strip.strip())
        style = palette.error if key == "failed" else palette.warning
        remark = rendition["error"] or rendition["reason"] or ""
        lines += doc.paragraph(remark, width, style, indent=column + 2)
    makers = "" if stale else sentences.makers_words(job)
    lines += doc.paragraph(makers, width, palette.dim, indent=column + 2)
    for text in sentences.skipped_words(job["renditions"]):
        skipped = f"{glyphs.states['skipped']} {text}"
        lines += doc.paragraph(skipped, width, palette.states["skipped"], indent=column + 2)
    if not job["renditions"]:
        problem, ended = job["source"]["problem"], job["status"] in ("failed", "cancelled")
        text = "no quality was started" if ended else "known once a worker has started the job"
        if problem and not ended:
            text = in_one_line(**problem)
        lines += doc.paragraph(text, width, palette.faint)
    return [*lines, doc.blank(width)]


def _took(rendition: RenditionView) -> str:
    """Time from the first to the last segment of a quality, pauses included; empty before it is complete."""
    took = fmt.lasted(rendition["started_at"], rendition["completed_at"])
    return f"in {took}" if took else ""


def _legend(job: JobDetail, kept: int, glyphs: Glyphs) -> str:
    """The symbols of the segment bars, as far as they occur."""
    if not any(each["segments_total"] for each in job["renditions"]):
        return ""
    signs = [f"{glyphs.full} done", f"{glyphs.kept} kept from before" if kept else ""]
    if job["status"] == "in_progress":
        signs.append(f"{glyphs.states['running']} now")
    if job["status"] != "done":
        signs.append(f"{glyphs.states['pending']} missing")
    return "  ".join(filter(None, signs))


def steps(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs = doc.context.palette, doc.context.glyphs
    attempt = newest_attempt(job)
    took = attempt["steps"] if attempt else {}
    moving = job["status"] == "in_progress" and not doc.context.model.stale
    current = job["step"] if moving else None
    broken_off = broken_off_in(attempt) if attempt else None
    lines = [doc.heading("Steps", width)]
    line = doc.start(width).gap(2)
    for step in Step:
        key = "pending"
        if step.value == current:
            key = "running"
        elif step.value == broken_off and attempt:
            key, _ = OUTCOMES.get(attempt["outcome"], ("failed", ""))
        elif step.value in took or job["status"] == "done":
            key = "done"
        seconds = took.get(step.value)
        word = step.value.replace("_", " ")
        text = f"{glyphs.states[key]} {word}" + (f" {fmt.step_duration(seconds)}" if seconds else "")
        if line.room < len(text) + 1:
            lines.append(line.strip())
            line = doc.start(width).gap(2)
        line.add(text, palette.states[key]).gap(2)
    return [*lines, line.strip(), doc.blank(width)]


def broken_off_in(attempt: AttemptView) -> str | None:
    """The step in which an attempt was interrupted."""
    took = attempt["steps"]
    if attempt["outcome"] in ("done", "running"):
        return None
    if attempt["outcome"] == "lost":
        # A dead worker could not report the duration of its last step.
        return next((step.value for step in Step if step.value not in took), None)
    return next((step.value for step in reversed(Step) if step.value in took), None)


def attempts(doc: Document, job: JobDetail, width: int, *, chosen: int | None) -> list[Strip]:
    """One row per attempt, newest first; `l` opens the log of the selected one."""
    palette, glyphs = doc.context.palette, doc.context.glyphs
    keys = f"tab selects, l log {glyphs.bullet} " if len(job["attempts_log"]) > 1 else ""
    lines = [doc.heading("Attempts", width, f"{keys}{sentences.failure_words(job)}")]
    for attempt in sorted(job["attempts_log"], key=lambda attempt: -attempt["number"]):
        click = link("log", str(attempt["number"]))
        here = attempt["number"] == chosen and len(job["attempts_log"]) > 1
        key, words = OUTCOMES.get(attempt["outcome"], ("pending", sentences.status_word(attempt["outcome"])))
        if key == "running" and doc.context.model.stale:
            key, words = "stale", "running?"
        line = doc.start(width).add(glyphs.cursor if here else " ", palette.accent)
        line.cell(str(attempt["number"]), 3, (palette.strong if here else palette.dim) + click, right=True)
        line.gap(2).cell(f"{glyphs.states[key]} {words}", 14, palette.states[key] + click)
        line.cell(attempt["worker"], 8, palette.text + click)
        for part in _attempt_numbers(attempt, doc):
            if width_of(part) + 2 <= line.room:
                line.add(f"{part}  ", palette.dim + click)
        lines.append(line.strip())
        lines += _attempt_error(doc, attempt, width)
    if not job["attempts_log"]:
        lines.append(doc.start(width).gap(2).add("none yet", palette.faint).strip())
    return [*lines, doc.blank(width)]


def _attempt_numbers(attempt: AttemptView, doc: Document) -> list[str]:
    """Duration, position it resumed from, start time and what ffmpeg used; the least important last."""
    now = doc.context.model.now()
    # A lost attempt counts until its last known progress.
    last = attempt["last_progress_at"] if attempt["outcome"] == "lost" else attempt["ended_at"]
    began, ended = fmt.parse_time(attempt["started_at"]), fmt.parse_time(last)
    if ended is None and attempt["ended_at"] is None and doc.context.model.stale:
        ended = doc.context.model.last_contact
    took = ((ended or now) - began).total_seconds() if began else None
    at_s = attempt["resumed_at_s"]
    resumed = "" if at_s is None else f"resumed at {fmt.clock_duration(at_s)}" if at_s else "from the start"
    cpu, memory = fmt.clock_duration(attempt["cpu_s"]), units.short_size(attempt["peak_memory_bytes"])
    used = " ".join(filter(None, (f"cpu {cpu}" if cpu else "", memory)))
    return [f"{fmt.clock_duration(took):>5}", resumed, fmt.moment(attempt["started_at"], now), used]


def _attempt_error(doc: Document, attempt: AttemptView, width: int) -> list[Strip]:
    text = ": ".join(filter(None, (attempt["error_code"], fmt.plain(attempt["error"] or ""))))
    parts = wrap(text, width - 8)
    if len(parts) > ERROR_LINES:
        parts = [*parts[: ERROR_LINES - 1], fit(" ".join(parts[ERROR_LINES - 1 :]), width - 8)]
    style = doc.context.palette.dim
    return [doc.start(width).gap(6).add(part, style).strip() for part in parts]


def command(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    attempt = newest_attempt(job)
    if attempt is None or not attempt["argv"]:
        return []
    palette = doc.context.palette
    sign = doc.context.sign
    copies_path = sentences.is_playable(job) and job["video_view"]["generation"]
    copies = "" if copies_path else f"{sign('copy')} copies, "
    lines = [doc.heading("Commands", width, f"{copies}{sign('command')} shows all")]
    for argv in attempt["argv"]:
        short = [argv[0].rpartition("/")[2], *argv[1:]]
        parts = wrap(fmt.plain(shell_quoting.line(short)), width - 4)
        if len(parts) > COMMAND_LINES:
            last = parts[COMMAND_LINES - 1]
            parts = [
                *parts[: COMMAND_LINES - 1],
                fit(last + " " * width, width - 4, doc.context.glyphs.ellipsis),
            ]
        lines += [doc.start(width).gap(2).add(part, palette.dim).strip() for part in parts]
    return [*lines, doc.blank(width)]


def facts(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    video, source, now = job["video_view"], job["source"], doc.context.model.now()
    known = [
        ("format", fmt.source_size(source)),
        ("pixels", f"{source['width']}×{source['height']}" if source["width"] else ""),
        ("length", fmt.clock_duration(source["duration_s"])),
        ("size", units.size(source["size"])),
        *_streams(video["facts"] or {}),
        ("path", sentences.source_path(video)),
        ("output", readable(video["output_root"])),
        ("added", sentences.added_words(job, now)),
        ("started", fmt.moment(job["started_at"], now)),
        ("ended", fmt.moment(job["completed_at"], now)),
        ("worker", job["processed_by"] or ""),
    ]
    lines = [doc.heading("Source", width)]
    for name, value in known:
        lines += doc.fact(name, value, width)
    return [*lines, doc.blank(width)]


def _streams(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Container, video, audio and subtitles, a line each."""
    video = facts.get("video") or {}
    picture = [*map(video.get, ("codec", "profile", "pix_fmt")), fmt.bitrate(video.get("bitrate"))]
    picture += ["interlaced" if video.get("interlaced") else "", "variable rate" if video.get("vfr") else ""]
    audio = [
        " ".join(filter(None, (a.get("codec"), channels_word(a.get("channels")), language_word(a, ""))))
        for a in facts.get("audio") or []
    ]
    subtitles = [language_word(each, each.get("codec") or "") for each in facts.get("subtitles") or []]
    return [
        ("container", str(facts.get("container") or "")),
        ("cover" if video.get("still") else "video", ", ".join(str(part) for part in picture if part)),
        ("audio", ", ".join(audio)),
        ("subtitles", ", ".join(subtitles)),
    ]


def generation(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    published = job["video_view"]["generation"]
    palette = doc.context.palette
    if published is None:
        return []
    when = fmt.moment(published["published_at"], doc.context.model.now())
    copies = f"{doc.context.sign('copy')} copies it, " if sentences.is_playable(job) else ""
    lines = [doc.heading("Playable", width, f"{copies}v{published['number']}, {when}")]
    lines += doc.fact("playlist", readable(published["master"]), width)
    if not is_bucket(published["master"]):
        lines += doc.fact("play it", shell_quoting.line(["mpv", fmt.copied(published["master_b64"])]), width)
    for file in published["files"]:
        lines += doc.fact("file", f"{readable(file['path'])} ({units.size(file['size'])})", width)
    for name, value in sentences.delivery_words(job["video_view"]["delivery"]):
        lines += doc.fact(name, value, width)
    for rendition in published["renditions"]:
        line = doc.start(width).cell(rendition["name"], 17, palette.strong, right=True).gap()
        pixels = f"{rendition['width']}×{rendition['height']}" if rendition["width"] else ""
        line.cell(pixels or channels_word(rendition["channels"]) or rendition["kind"], 10, palette.text)
        line.cell(fmt.bitrate(rendition["average_bps"]), 9, palette.dim, right=True).gap()
        line.cell(units.size(rendition["size"]), 7, palette.dim, right=True).gap()
        lines.append(line.add(rendition["codecs"], palette.faint).strip())
    return [*lines, doc.blank(width)]


def events(doc: Document, job: JobDetail, width: int) -> list[Strip]:
    palette, glyphs, now = doc.context.palette, doc.context.glyphs, doc.context.model.now()
    lines = [doc.heading("Events", width, "newest first")]
    for event in job["events"][:MAX_EVENTS]:
        key = sentences.event_state(event)
        line = doc.start(width).gap().cell(fmt.moment(event["at"], now), 12, palette.dim)
        line.add(f"{glyphs.states[key]} {sentences.event_sentence(event)}", palette.states[key]).gap(2)
        remark = fmt.plain(sentences.event_remark(event))
        lines.append(line.add(fit(remark, line.room - 1, glyphs.ellipsis), palette.dim).strip())
    return [*lines, doc.blank(width)]
