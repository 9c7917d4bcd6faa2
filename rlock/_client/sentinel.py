"""Sentinel: the address of a group's primary, asked anew for each connection.

redis-py's own lookup takes the first answer, and keeps asking that Sentinel. A Sentinel that is cut off from
the others names the old primary for ever. So rlock asks all of them, and the newest configuration counts.
"""

import re
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from ..procedures.port import WaitGenerator
from ..rules.replies import text
from .handshake import settled
from .libraries import errors
from .runtime import RunningCalls, in_thread, run

FORM = "redis+sentinel://host:26379,host:26379/service?replicas=1"
PORT = 26379
#: How long one Sentinel may take for each step of its answer, and for its name and all steps.
SENTINEL_S = 0.5
DEADLINE_S = 1.5
LATE = f"no answer within {DEADLINE_S:g} s"

_SCHEME = r"(?:redis|valkey)(s?)\+sentinel://"
_URL = re.compile(_SCHEME + r"(?:([^/?#]*)@)?([^/?#@]+)/([A-Za-z0-9._-]+)/?(?:\?([^#]*))?")
_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}


class GroupUrl(NamedTuple):
    service: str
    server: str  # the URL of a server, with a placeholder for its address
    sentinels: list[str]  # the URLs of the Sentinels


def is_sentinel(url: str) -> bool:
    return re.match(_SCHEME, url) is not None


def take_apart(url: str) -> GroupUrl | None:
    found = _URL.fullmatch(url)
    if found is None:
        return None
    secure, login, hosts, service, query = found.groups()
    options = dict(parse_qsl(query or "", keep_blank_values=True))
    tls = _YES_OR_NO.get(options.pop("sentinel_tls", "yes" if secure else "no"))
    user, password = options.pop("sentinel_username", ""), options.pop("sentinel_password", "")
    if tls is None:
        return None
    database = options.pop("db", "0")
    of_tls = {key: value for key, value in options.items() if key.startswith("ssl_")}
    asked = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
    places = [host if re.search(r":[0-9]+$", host) else f"{host}:{PORT}" for host in hosts.split(",")]
    scheme, query = "rediss" if tls else "redis", f"?{urlencode(of_tls)}" if tls and of_tls else ""
    sentinels = [f"{scheme}://{asked}{place}{query}" for place in places]
    server = f"redis{secure}://{f'{login}@' if login else ''}primary/{database}"
    return GroupUrl(service, server + (f"?{urlencode(options)}" if options else ""), sentinels)


class Service:
    """The Sentinels of a group. redis-py's `SentinelManagedConnection` asks it for the primary's address."""

    is_master = True
    check_connection = False

    def __init__(self, name: str, sentinels: Sequence[Any], error: type[Exception]) -> None:
        self.service_name = name
        self.sentinels = sentinels  # an endpoint for each
        self._error = error
        self._asking: RunningCalls = {}

    def newest(self, answers: Sequence[Any]) -> tuple[str, int]:
        """The address in the newest of the answers. Raises redis-py's error if there is none."""
        named = [found for answer in answers if (found := _address(answer)) is not None]
        if named:
            return max(named)[1:]
        for answer in answers:
            if isinstance(answer, errors("AuthenticationError", "NoPermissionError")):
                raise type(answer)(f"its Sentinels refuse the password or the user: {answer}")
        told = [(str(it) if isinstance(it, Exception) else "") or LATE for it in answers]
        said = [f"{one.label}: {it}" for one, it in zip(self.sentinels, told, strict=True)]
        if any("No such master" in each for each in said):
            unknown = f"its Sentinels know no service {self.service_name!r}"
            raise self._error(f"{unknown}: check the name in the URL")
        raise self._error(f"no Sentinel of {self.service_name!r} answers ({'; '.join(said)})")

    def get_master_address(self) -> Any:
        # At the same time: otherwise each one that is down would add its time-out to every attempt.
        asked = [self._question(i) for i in range(len(self.sentinels))]
        wait(asked, DEADLINE_S)
        return self.newest([each.result() if each.done() else LATE for each in asked])

    def _question(self, i: int) -> Future[Any]:
        def answer() -> Any:
            return run(self._ask(self.sentinels[i]))

        try:
            return in_thread(self._asking, i, answer)
        except RuntimeError:  # there are no more threads
            found: Future[Any] = Future()
            found.set_result(answer())
            return found

    def _ask(self, sentinel: Any) -> WaitGenerator[Any]:
        connection = sentinel.connection(SENTINEL_S)
        try:
            yield from settled(connection.connect())
            yield from settled(connection.send_command("SENTINEL", "MASTER", self.service_name))
            return (yield from settled(connection.read_response()))
        except Exception as error:
            return error
        finally:
            sentinel.abort(connection)


def _address(answer: Any) -> tuple[int, str, int] | None:
    """The epoch, host and port in an answer; None: one of them is missing, or is none."""
    if not isinstance(answer, list | dict):
        return None
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=False)
    found = {text(key): text(value) for key, value in pairs}
    host, numbers = found.get("ip", ""), [found.get(key, "") for key in ("config-epoch", "port")]
    known = re.fullmatch(r"[\w.:%-]{1,253}", host)  # another one would bring its characters into a log
    if not known or not all(re.fullmatch("[0-9]{1,19}", number) for number in numbers):
        return None
    epoch, port = map(int, numbers)
    return (epoch, host, port) if 0 < port < 65536 else None
