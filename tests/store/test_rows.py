"""What is read as a message or written from a data class: times, paths, flags and lists."""

from __future__ import annotations

import json
from base64 import b64encode

from sqlalchemy import update

from tqstudio.engine.host.clock import MICROSECOND
from tqstudio.engine.store.db import tables
from tqstudio.engine.store.db.rows import values_of
from tqstudio.engine.store.jobs.jobs import NewJob
from tqstudio.engine.store.lists import records

from .conftest import Queue

MOMENT = 1_700_000_000 * MICROSECOND + 123_000
NOT_UTF8 = b"/in/\xff.mp4"


def test_a_message_has_times_as_text_and_paths_as_text_and_base64(queue: Queue) -> None:
    job = queue.job()
    queue.db.execute(update(tables.job).values(created_at=MOMENT, completed_at=MOMENT))
    queue.db.execute(update(tables.video).values(source=NOT_UTF8))
    record = records.one(queue.db, job)
    assert record is not None
    assert (record["created_at"], record["started_at"]) == ("2023-11-14T22:13:20.123+00:00", None)
    assert record["ended_at"] == MOMENT, "what is computed with stays a number"
    assert (record["path"], record["path_b64"]) == ("/in/\\xff.mp4", b64encode(NOT_UTF8).decode())


def test_a_data_class_has_the_values_of_the_columns_named_as_its_fields() -> None:
    new = NewJob(video=7, profile="web", profile_json="{}", prefer_gpu=True, requested=("720p",))
    values = values_of(tables.job, new)
    assert (values["prefer_gpu"], values["batch"], values["kind"]) == (1, None, "new")
    assert (json.loads(values["requested"]), values["dropped"], values["changes"]) == (["720p"], "[]", "[]")
    assert not {"video", "hold", "metadata", "status"} & values.keys()
