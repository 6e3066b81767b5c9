"""The background look at waiting files, so that the queue shows their size, length and what is left to do.

A hostile file may crash, hang or blow up whoever parses it. So files are read by one small process
(`program`), bounded in time and memory, that the supervisor (`prober`) asks about one file after another
(`process`) and that is replaced when it dies. Nothing depends on it: a job that is claimed earlier looks for
itself, and every job makes sure that its source is still the file that was looked at.

Question and answer are one line of JSON each, on the program's stdin and stdout; paths are base64:

    ← {"ready": true}
    → {"path": "L2RhdGEvYS5tcDQ="}
    ← {"size": 81200, "mtime_ns": 17000, "facts": {…}}    as of `SourceFacts.to_json`
    ← {"error": {"code": "NO_MEDIA", "message": "…", "hint": "…"}}
"""
