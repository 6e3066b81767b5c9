"""The language of filters: what is read, what is refused, and that the canonical form means the same."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqstudio.errors import ErrorCode, TqError
from tqstudio.lifecycle import JobStatus
from tqstudio.protocol.filters import (
    EVERYTHING,
    LONGEST,
    SORTS,
    VALUES,
    WORDS,
    Filter,
    FilterError,
    Term,
    parse,
    seconds,
    size,
    sort_of,
)


@pytest.mark.parametrize(
    ("line", "canonical"),
    [
        ("", ""),
        (" \t ", ""),
        ("summer  film", "summer film"),
        ("state:running,failed summer", "state:running,failed summer"),
        ("STATE:Fa x", "state:failed x"),
        ("state:in_p,wait,held", "state:running,pending,paused"),
        ("!state:done", "!state:done"),
        ("state:!done,failed", "!state:done,failed"),
        ("!state:!done", "state:done"),
        ("x state:done folder:3", "state:done folder:3 x"),
        ("folder:cam1,nas/films", "folder:cam1,nas/films"),
        ('folder:"My, films",3', 'folder:"My, films",3'),
        ("code:encoder_e,any", "code:ENCODER_EXIT,any"),
        ("code:stalled code:STALLED", "code:STALLED"),
        ("warning:hdr_t kind:c", "warning:HDR_TONE_MAPPED kind:changed"),
        ("older:2D larger:1.5gb longer:90M", "older:2d larger:1.5G longer:90m"),
        ("larger:5K,3t", "larger:5k,3T"),
        ("state:deleted state:done", "state:deleted state:done"),
        ('"My Film" !"a b"', '"My Film" !"a b"'),
        ("text:a,b", "text:a,b"),
        ("a,b", '"a,b"'),
        ("http://x 12:30 S01:E02", '"http://x" "12:30" "S01:E02"'),
        ('"state:done"', '"state:done"'),
        ("! a!", '"!" a!'),
        ("!!a", '!"!a"'),
        ('quo"te """"', '"quo""te" """"'),
        ("100%_ back\\s été", "100%_ back\\s été"),
        ("owner:token:ana", 'owner:"token:ana"'),
    ],
)
def test_a_line_has_a_canonical_form(line: str, canonical: str) -> None:
    assert parse(line).line() == canonical
    assert parse(canonical) == parse(line)


@pytest.mark.parametrize(
    ("line", "message", "unfinished"),
    [
        ("colour:red", "unknown word “colour:”", False),
        ("!Film: x", "unknown word “Film:”", False),
        ("state:walking", "unknown state “walking”", False),
        ("state:pa,walking", "unknown state “walking”", False),
        ("state:d", "state: “d” may be deleted or done", True),
        ("code:ENCODER", "may be ENCODER_EXIT or ENCODER_SIGNAL", True),
        ("code:NOT_FOUND", "unknown code", False),
        ("warning:audio_cot", "unknown warning", False),
        ("kind:x", "unknown kind “x”", False),
        ("state:", "“state:” needs a value", True),
        ("state:done,", "“state:” needs a value", True),
        ('folder:""', "“folder:” needs a value", True),
        ("text: x", "“text:” needs a value", True),
        ("state:done,deleted", "the bin is not a state among others", False),
        ("older:x", "older: “x” is no time", False),
        ("older:2", "older: “2” is no time", True),
        ("older:2G", "older: “2G” is no time", False),
        ("longer:-1h", "is no time", False),
        ("larger:2d", "larger: “2d” is no size", False),
        ("larger:1e9G", "is no size", False),
        ("larger:9999999T", "is no size", False),
        ('a "b', "a quote is not closed", True),
        ('folder:"b', "a quote is not closed", True),
        ("x" * (LONGEST + 1), "501 characters", False),
    ],
)
def test_what_is_wrong_is_said(line: str, message: str, unfinished: bool) -> None:
    with pytest.raises(FilterError) as raised:
        parse(line)
    error = raised.value
    assert message in error.message
    assert (error.code, error.unfinished) == (ErrorCode.BAD_REQUEST, unfinished)
    assert error.hint != TqError(ErrorCode.BAD_REQUEST, "").hint, "it says what to write"


def test_an_unknown_word_lists_those_that_exist() -> None:
    with pytest.raises(FilterError) as raised:
        parse("colour:red")
    assert all(f"{word}:" in raised.value.hint for word in WORDS)


def test_states() -> None:
    assert parse("").statuses == tuple(JobStatus)
    assert parse("state:done,run").statuses == (JobStatus.IN_PROGRESS, JobStatus.DONE)
    assert parse("!state:done !state:failed,running").statuses == (
        JobStatus.PENDING,
        JobStatus.PAUSED,
        JobStatus.CANCELLED,
    )
    assert parse("state:done state:failed").statuses == ()
    assert (parse("state:deleted state:done").deleted, parse("!state:deleted").deleted) == (True, False)
    assert parse("state:deleted").statuses == tuple(JobStatus)


def test_amounts() -> None:
    [older, larger, longer] = parse("older:1.5w larger:2.5M longer:90s").terms
    assert (seconds(older.values[0]), size(larger.values[0]), seconds(longer.values[0])) == (
        907_200,
        2_500_000,
        90,
    )
    assert size("999999.999T") < 2**63, "it fits the database"


@pytest.mark.parametrize("word", VALUES)
def test_every_beginning_is_the_value_or_names_those_that_it_may_be(word: str) -> None:
    for written, stored in VALUES[word].items():
        assert parse(f"{word}:{written}").terms[0].values == (stored,)
        for end in range(1, len(written)):
            with contextlib.suppress(FilterError):
                # A whole word counts first, as one that others begin with.
                assert parse(f"{word}:{written[:end]}").terms[0].values == (stored,)
                continue
            with pytest.raises(FilterError, match=stored) as raised:
                parse(f"{word}:{written[:end]}")
            assert raised.value.unfinished


_PARTS = (*'aB:!,"\\ %_/\u3000é\0', "state:", "text:", "folder:", "done", "older:", "2d")


@given(st.lists(st.sampled_from(_PARTS)).map("".join))
def test_any_line_is_refused_or_read_back_as_the_same(line: str) -> None:
    try:
        found = parse(line)
    except FilterError:
        return
    assert parse(found.line()) == found


@given(
    st.lists(
        st.builds(
            Term,
            st.sampled_from(["text", "folder", "batch", "owner"]),
            st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=3, unique=True).map(tuple),
            st.booleans(),
        ),
        max_size=3,
        unique=True,
    )
)
def test_any_value_can_be_written(terms: list[Term]) -> None:
    assert set(parse(Filter(tuple(terms)).line()).terms) == set(terms)


def test_terms_are_replaced() -> None:
    line = parse("state:done state:deleted x")
    assert line.with_terms("state", Term("state", ("failed",))).line() == "state:failed x"
    assert line.with_terms("state").with_terms("text") == EVERYTHING


def test_sorts() -> None:
    assert [sort_of(sort) for sort in ("newest", "oldest", "-size")] == ["-number", "number", "-size"]
    assert [sort_of(sort) for sort in SORTS] == [*SORTS]
    for wrong in ("", "-", "--size", "colour", "Name"):
        with pytest.raises(TqError, match="cannot be sorted by"):
            sort_of(wrong)
