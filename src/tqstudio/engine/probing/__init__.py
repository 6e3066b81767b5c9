"""Probes the files of waiting jobs in the background, so that the queue shows their size and length.

A hostile file may crash, hang or exhaust the process that parses it. So one small process (`program`),
limited in time and memory, probes the files one by one; the supervisor sends the requests (`prober`,
`probe_client`) and replaces the process when it dies. Jobs do not depend on it: a job that is claimed earlier
probes its source itself, and every job checks that its source has not changed.

Request and response are one line of JSON each, on the program's stdin and stdout; paths are base64:

    ← {"ready": true}
    → {"path": "L2RhdGEvYS5tcDQ="}
    ← {"size": 81200, "mtime_ns": 17000, "facts": {…}}    see `SourceFacts.to_json`
    ← {"error": {"code": "NO_MEDIA", "message": "…", "hint": "…"}}
"""
