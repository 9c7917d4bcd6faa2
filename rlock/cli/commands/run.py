"""`rlock run NAME -- COMMAND`: a command under a lock, in the manner of flock(1) and `etcdctl lock`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from ...client import Client
from ...errors import LeaseLostError, OptionsError, QuorumUnreachableError, RLockError
from ...lock import Lock, LossSignal
from ...model import LockStatus
from ...rules.holds import Hold
from ...rules.keys import hold_name
from .. import exits
from ..completion import complete_command, complete_name
from ..options import Seconds, seconds_option
from ..output import json_option
from ..run.child import ON_LOST, TERM, WARN, GuardedCommand
from ..run.events import Outcome
from ..run.leading import lead
from ..settings import Settings, settings_options

F = TypeVar("F", bound=Callable[..., Any])


class Run(click.Command):
    """Options stand before NAME, or between NAME and COMMAND; what follows is COMMAND's, as with flock."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put NAME behind our options, so that what is left is COMMAND with its own."""
        return super().parse_args(ctx, self._sorted(ctx, args))

    def _sorted(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = False
        before, name, after = self._at_first_word(ctx, args)
        if name is None or before[-1:] == ["--"]:
            return args
        options, program, rest = self._at_first_word(ctx, [*before, *after])
        if program is None:
            # Options behind NAME, and no COMMAND: -c, or something is missing.
            return [*before, *(word for word in after if word != "--"), name]
        if options[-1:] == ["--"]:
            options.pop()
        return [*options, "--", name, program, *rest]

    def _at_first_word(self, ctx: click.Context, args: list[str]) -> tuple[list[str], str | None, list[str]]:
        """What stands before the first word that is no option of ours, that word, and what follows."""
        found, _, _ = self.make_parser(ctx).parse_args(list(args))
        word, rest = found.get("name"), found.get("command")
        if not isinstance(word, str):
            return list(args), None, []
        following = list(rest) if isinstance(rest, tuple | list) else []
        return args[: len(args) - len(following) - 1], word, following


def _refused(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    why = {
        "unlock": "there is no file descriptor to unlock (-u): the lock is free when COMMAND ends",
        "no_fork": "rlock has to stay and renew the lease while COMMAND runs: -F is not possible",
    }
    if value and not ctx.resilient_parsing:
        raise click.UsageError(why[str(param.name)], ctx)


def _like_flock(*names: str, told: str) -> Callable[[F], F]:
    """An option of flock that changes nothing here, so that its lines in crontabs can be taken over."""
    return click.option(*names, is_flag=True, expose_value=False, help=told)


def _not_like_flock(*names: str) -> Callable[[F], F]:
    return click.option(*names, is_flag=True, expose_value=False, hidden=True, callback=_refused)


_flag = partial(click.option, is_flag=True)
_seconds = partial(click.option, type=Seconds(), metavar="S")
_shown = partial(click.option, show_default=True)


# fmt: off
@click.command(cls=Run, epilog=exits.epilog(), options_metavar="[OPTIONS]")
@click.argument("name", shell_complete=complete_name)
@_seconds("-w", "--wait", "--timeout", "timeout",
          help="Wait S seconds at the most, also fractions of them; 0 is -n.")
@_flag("-n", "--nb", "--nonblock", "--no-wait", "no_wait", help="Do not wait: fail at once if it is held.")
@_shown("-E", "--conflict-exit-code", type=click.IntRange(0, 255), default=exits.NOT_ACQUIRED, metavar="CODE",
        help="Exit status when -n or -w got no lock, 0 to 255.")
@click.option("-c", "--command", "line", metavar="LINE",
              help="Give LINE to the shell ($SHELL, else /bin/sh) with -c.")
@_like_flock("-x", "-e", "--exclusive", told="Changes nothing: the lock is exclusive. For lines of flock.")
@_like_flock("-o", "--close", told="Changes nothing: what COMMAND leaves running never keeps the lock.")
@_not_like_flock("-u", "--unlock")
@_not_like_flock("-F", "--no-fork")
@click.option("--also", multiple=True, metavar="NAME",
              help="Lock NAME, too: all names or none. May be repeated.")
@click.option("--permits", type=click.IntRange(1), metavar="K",
              help="Up to K holders at a time, in place of one: give the same K everywhere.")
@_flag("--leader", help="Lead: run COMMAND on one machine of many, again and again.")
@_flag("-s", "--shared", help="Read: all names are held beside other readers, and not beside a writer (-x).")
@_flag("--fair", help="First come, first served: nobody who comes later goes before.")
@_shown("--retries", type=click.IntRange(0), default=0, metavar="N",
        help="With -n and -w: how often to try again when fewer than a quorum of masters answered.")
@seconds_option("--retry-delay", within=(0, 86400), default=1.0,
                told="Seconds before each of them, and before --leader campaigns again.")
@_seconds("--ttl", help="Length of the lease that is renewed; default 10.")
@_seconds("--max-hold", help="Renew for S seconds at the most; then the lock is lost.")
@_seconds("--at-least", help="Keep the lock for S seconds in any case (RLOCK_MAX_TTL at the most).")
@_shown("--on-lost", type=click.Choice(ON_LOST), default=TERM,
        help="What COMMAND gets when its lock was lost: nothing, SIGTERM and later SIGKILL, or SIGKILL.")
@seconds_option("--grace", within=(0, 86400 * 365), default=5.0,
                told="Seconds between SIGTERM and SIGKILL for a command whose lock was lost.")
@_flag("--pass-masters", help="Leave RLOCK_MASTERS in COMMAND's environment, with the passwords in it.")
@_flag("--verbose", help="Say on stderr how long it took to get the lock.")
@_flag("-q", "--quiet", help="No line about a held lock, or a failure with --leader.")
@json_option
@settings_options
@click.argument("command", nargs=-1, metavar="COMMAND [ARGUMENT]...", type=click.UNPROCESSED,
                shell_complete=complete_command)
@click.pass_context
def run(
    ctx: click.Context, name: str, command: Sequence[str], *, line: str | None, timeout: float | None,
    no_wait: bool, conflict_exit_code: int, leader: bool, shared: bool, fair: bool, retries: int,
    retry_delay: float, also: tuple[str, ...], permits: int | None, ttl: float | None, max_hold: float | None,
    at_least: float | None, on_lost: str, grace: float, pass_masters: bool, verbose: bool, quiet: bool,
    as_json: bool, settings: Settings,
) -> None:
    # fmt: on
    """Run COMMAND while holding the lock NAME, and exit as it does.

    \b
    Examples:
      rlock run nightly -- ./report.sh          wait for it as long as it takes
      rlock run -n nightly -- ./report.sh       cron: skip this run if the last one is still on
      rlock run -w 30 deploy -- make deploy     give up after 30 seconds
      rlock run -n -E 0 -q nightly -c 'a | b'   a shell line; a skipped run is no failure
      rlock run -n --at-least 8 tick -- ./tick  cron on machines whose clocks differ: one runs it
      rlock run --permits 4 gpu -- ./train      at most four at a time
      rlock run --also b a -- ./move            both names, or none
      rlock run --leader beat -- celery beat    on several machines: it runs on one of them

    Options stand before NAME or between NAME and COMMAND; all words after COMMAND are its own. Write `--`
    before COMMAND if it starts with a dash.

    rlock renews the lease while COMMAND runs. When the lease is lost all the same, COMMAND gets SIGTERM, then
    SIGKILL after the grace time, and the exit status is 76. Signals that reach rlock go on to COMMAND.

    The lock is free when COMMAND ends, also if COMMAND leaves processes in the background. If rlock itself is
    killed with -9, COMMAND is killed too (on Linux; not its own children, and not a set-uid program such as
    sudo), and the lock is free within the ttl.

    With --leader rlock waits for its turn, and again when COMMAND has ended or the lock is lost. If renewals
    fail, COMMAND is ended before the lease ends. SIGTERM, SIGINT, SIGHUP and SIGQUIT end rlock, too.

    Without -n or -w rlock waits as long as it takes, also for masters that cannot be reached.

    COMMAND finds RLOCK_NAME, RLOCK_OWNER, RLOCK_FENCING_TOKEN and RLOCK_TTL in its environment. rlock takes
    RLOCK_MASTERS out, which may hold passwords, unless --pass-masters is given. --json prints the events
    (acquired, not_acquired, retrying, lost, ended, error, log) on stderr.
    """
    command = _command(ctx, name, command, line)
    check_wait(timeout=timeout, no_wait=no_wait, retries=retries)
    one_lock = max_hold is not None or at_least is not None
    if leader and (no_wait or timeout is not None or one_lock or on_lost == WARN):
        raise click.UsageError(
            "--leader waits, and ends COMMAND in time: no -n, -w, --max-hold, --at-least, --on-lost warn"
        )
    if (permits or also) and (leader or one_lock or (also and (fair or permits))):
        raise click.UsageError(
            "--permits goes with no --leader, --max-hold, --at-least, --also; --also with none of these, and "
            "without --fair"
        )
    if shared and (leader or permits or at_least is not None):
        raise click.UsageError("--shared goes with no --leader, --permits, --at-least")
    if timeout == 0:
        no_wait = True
    outcome = Outcome(name, as_json=as_json, verbose=verbose, quiet=quiet)
    guarded = GuardedCommand(command, grace, on_lost, leads=leader)
    with outcome.errors():
        found = settings.environ()
    guarded.listen()
    with outcome.errors(), Client.from_env(found, **({} if ttl is None else {"ttl": ttl})) as own:
        environment = partial(_environment, found if pass_masters else os.environ, own.ttl, name)
        if leader:
            sys.exit(lead(own, name, guarded, outcome, environment, fair=fair, pause=retry_delay))
        lock: Any
        if permits is not None:
            names = [f"{name}#{i}" for i in range(permits)]
            lock = own.semaphore(name, permits=permits, fair=fair)
        elif also:
            names = [name, *also]
            lock = own.locks((), shared=names) if shared else own.locks(names)
        elif shared:
            lock, names = own.read_write_lock(name, max_hold=max_hold).reader, [name]
        else:
            lock = own.lock(name, fair=fair, max_hold=max_hold, hold_at_least=at_least or 0.0)
            names = [name]
        began = time.monotonic()
        try:
            got = acquire(lock, outcome, retries, retry_delay, timeout=timeout, no_wait=no_wait)
        except QuorumUnreachableError as error:
            told = {"waited": time.monotonic() - began, "quorum": error.quorum, "faults": error.faults}
            outcome.event("not_acquired", {"outcome": "unreachable", **told}, str(error), always=True)
            sys.exit(exits.UNREACHABLE)
        if not got:
            status = _status(own, names)
            one = status.name if also and isinstance(status, LockStatus) else name
            outcome.busy(time.monotonic() - began, status, one)
            sys.exit(conflict_exit_code)
        acquired_at = time.monotonic()
        names = names if permits is None else [f"{name}#{lock.permit}"]
        holds = [own._engine().held(hold_name(each, shared)) for each in names]
        hold = holds[0]
        watch = threading.Thread(target=_watch, args=(guarded, lock.lost, holds), daemon=True)
        watch.start()
        try:
            waited = acquired_at - began
            told = {"owner": hold.owner, "fencing_token": hold.token, "ttl": own.ttl, "waited": waited}
            outcome.event("acquired", told, f"getting lock took {waited:.6f} seconds")
            outcome.detail(f"executing {command[0]}")
            permit = {} if permits is None else {"RLOCK_PERMIT": str(lock.permit)}
            code = guarded.run({**environment(hold.owner, hold.token), **permit})
        finally:
            if not guarded.started:
                hold.keep_no_longer()  # another machine may have the program
            try:
                lock.release()
            except LeaseLostError as error:
                guarded.error = error
                watch.join(1.0)  # otherwise what COMMAND has started could live on: its SIGKILL comes last
                one = error.name if also else name
                outcome.event("lost", {"name": one, "reason": error.reason})  # the log has said so in words
        if guarded.error is not None and not (on_lost == WARN and guarded.started):
            code = exits.LOST
        held = time.monotonic() - acquired_at
        text = f"ended with status {code}, lock held for {held:.6f} seconds"
        outcome.event("ended", {"exit_status": code, "held": held}, text)
    sys.exit(code)


def _watch(guarded: GuardedCommand, lost: LossSignal, holds: Sequence[Hold]) -> None:
    # Not by `on_lost`, which comes behind the log record: that waits while the reader of stderr is stopped.
    if lost.wait():  # never, once the lock is released
        hold = next((each for each in holds if each.lease.reason), holds[0])
        guarded.lost(LeaseLostError(hold.name, hold.reason))


def _command(ctx: click.Context, name: str, command: Sequence[str], line: str | None) -> Sequence[str]:
    if line is not None:
        if command:
            raise click.UsageError("-c takes exactly one argument, and COMMAND is given too: quote the line")
        # As flock does, and cron sets SHELL for it.
        return [os.environ.get("SHELL") or "/bin/sh", "-c", line]
    if not command:
        param = next(param for param in ctx.command.params if param.name == "command")
        if name.isdigit():
            told = f"rlock locks names for a COMMAND, there is no form for the file descriptor {name}"
            raise click.MissingParameter(told, ctx, param)
        raise click.MissingParameter(None, ctx, param)
    return command


def check_wait(*, timeout: float | None, no_wait: bool, retries: int = 0) -> None:
    """Refuse options that contradict each other."""
    if no_wait and timeout is not None:
        raise click.UsageError("give -n (--no-wait) or -w (--wait, --timeout), not both")
    if timeout is not None and timeout < 0:
        raise click.UsageError(f"-w (--wait, --timeout) must be 0 or more seconds, not {timeout:g}")
    if retries and not no_wait and timeout is None:
        raise click.UsageError(
            "--retries needs -n (--no-wait) or -w (--wait): without them it tries as long as it takes"
        )


def acquire(
    lock: Lock, outcome: Outcome, retries: int, delay: float, *, timeout: float | None, no_wait: bool
) -> bool:
    """Acquire as the options say; whether it has the lock."""
    while True:
        try:
            if no_wait:
                return lock.acquire(blocking=False)
            return lock.acquire(timeout=-1 if timeout is None else timeout)
        except OptionsError:
            raise  # a ValueError, and none of the time-out's
        except (OverflowError, ValueError) as error:
            raise click.UsageError(f"-w (--wait, --timeout): {error}") from None
        except QuorumUnreachableError as error:
            if not retries:
                raise
            retries -= 1
            text = f"{error}; trying again in {delay:g} s ({retries} left)"
            told = {"retries_left": retries, "delay": delay, "faults": error.faults}
            outcome.event("retrying", told, text)
            time.sleep(delay)


def _environment(given: Mapping[str, str], ttl: float, name: str, owner: str, token: int) -> dict[str, str]:
    told = {"NAME": name, "OWNER": owner, "FENCING_TOKEN": str(token), "TTL": f"{ttl:.15g}"}
    environment = {**given, **{f"RLOCK_{key}": value for key, value in told.items()}}
    if given is os.environ:  # no --pass-masters
        environment.pop("RLOCK_MASTERS", None)
    with suppress(OSError):
        # Python sets it where the locale is C, and flock(1) would not.
        if b"\0LC_CTYPE=" not in b"\0" + Path("/proc/self/environ").read_bytes():
            environment.pop("LC_CTYPE", None)
    return environment


def _status(own: Client, names: Sequence[str]) -> LockStatus | RLockError:
    """The status of the first of them that is held."""
    try:
        found = [own.status(name) for name in names[:10]]
    except RLockError as error:
        return error
    return next((each for each in found if each.locked), found[0])
