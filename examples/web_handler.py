"""A web server that ships each order in one request at a time: ``python web_handler.py``.

Try it with ``curl http://127.0.0.1:8000/orders/42``. Start another one with
``--port 8001``: the servers exclude each other.
"""

import argparse
import asyncio

import rlock.asyncio


async def ship(order: str, token: int) -> str:
    """Do the work. A database would store the token and refuse a lower one."""
    await asyncio.sleep(0.5)
    return f"order {order} shipped with token {token}\n"


async def respond(client: rlock.asyncio.Client, path: str) -> tuple[str, str]:
    """Return the status and the body for a path."""
    if not path.startswith("/orders/"):
        return "404 Not Found", "no such page\n"
    order = path.removeprefix("/orders/")
    lock = client.lock(f"order:{order}")
    try:
        if not await lock.acquire(blocking=False):
            return "409 Conflict", "another request ships this order\n"
        try:
            return "200 OK", await ship(order, lock.fencing_token)
        finally:
            await lock.release()
    except rlock.LeaseLostError:
        return "500 Internal Server Error", "the lock was lost while the order was shipped\n"
    except rlock.QuorumUnreachableError:
        return "503 Service Unavailable", "too few masters answer, try again later\n"


async def main(port: int) -> None:
    """Serve until Ctrl-C."""
    async with rlock.asyncio.Client.from_env() as client:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readuntil(b"\r\n\r\n")
            status, body = await respond(client, request.split()[1].decode())
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write((head + body).encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        print("listening on port", server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=8000, help="default: 8000; 0 takes any free one")
    asyncio.run(main(arguments.parse_args().port))
