"""Cut the power of a studio: `make powercut CUTS=100 SEED=7`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType

from powercut.course import CARELESS, OPTIONS, Account, run
from powercut.volume import CannotCut
from tqstudio.engine.media.ffmpeg.binary import locate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--careless", choices=CARELESS, help="a studio that does not sync these")
    parser.add_argument("--options", action="append", help=f"of mount; default: {', then '.join(OPTIONS)}")
    chosen = parser.parse_args()
    # Mounts and processes go also when a user ends this.
    signal.signal(signal.SIGTERM, _interrupt)
    seed = chosen.seed if chosen.seed is not None else time.time_ns() % 1_000_000
    say(f"{chosen.cuts} power cuts, seed {seed}")
    account = Account()
    try:
        run(
            account,
            ffmpeg=locate(None).path,
            cuts=chosen.cuts,
            seed=seed,
            options=chosen.options or OPTIONS,
            careless=chosen.careless,
            say=say,
        )
    except CannotCut as reason:
        print(f"the power cannot be cut here: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        _print(account)
        print("interrupted; nothing of it is left", file=sys.stderr)
        return 130
    _print(account)
    return 1 if account.lost else 0


def say(line: str) -> None:
    print(line, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print(account: Account) -> None:
    at_random = account.where[""]
    say(f"{account.cuts} power cuts in {account.seconds:.0f} s, {account.homes} homes")
    say(f"  {at_random:6d}  at random moments")
    for point, count in sorted(account.where.items()):
        if point:
            say(f"  {count:6d}  at {point}")
    say(f"answers noted        {account.answers}")
    say(f"jobs done            {account.jobs_done} of {account.jobs}")
    say(f"ladders decoded      {account.ladders}")
    say(f"generations read     {account.generations}")
    say(f"stored segments      {account.stored_segments}, all decoded")
    say(f"files forgotten      {account.forgotten}, of unfinished work")
    for line in account.lost:
        say(f"LOST: {line}")
    if account.caught:
        say("it was noticed that it does not sync")
    elif not account.lost:
        say("nothing was lost that any client had been sent")


if __name__ == "__main__":
    sys.exit(main())
