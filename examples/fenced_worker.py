"""Workers share the jobs of a table. Start as many as you like: ``python fenced_worker.py``.

The lock keeps two workers from doing one job at the same time. A worker that was paused for longer than its
lease may come back late. Its write carries an old fencing token, and the database refuses it.
"""

import argparse
import contextlib
import sqlite3
import time

import rlock

TABLE = """CREATE TABLE IF NOT EXISTS jobs
           (id INTEGER PRIMARY KEY, result TEXT, fence BIGINT NOT NULL DEFAULT 0)"""
#: Compare and write in one statement: a separate comparison would leave a gap.
CLAIM = "UPDATE jobs SET fence = :token WHERE id = :id AND fence <= :token AND result IS NULL"
FINISH = "UPDATE jobs SET result = :result WHERE id = :id AND fence = :token"


def work(job: int) -> str:
    """Compute the result of one job."""
    time.sleep(0.05)
    return f"result of {job}"


def try_job(client: rlock.Client, database: sqlite3.Connection, job: int) -> bool:
    """Do one job; False: another worker has it."""
    lock = client.lock(f"job:{job}")
    if not lock.acquire(blocking=False):
        return False
    token = lock.fencing_token
    try:
        if database.execute(CLAIM, {"id": job, "token": token}).rowcount == 0:
            return False
        values = {"id": job, "token": token, "result": work(job)}
        return database.execute(FINISH, values).rowcount == 1
    finally:
        with contextlib.suppress(rlock.LeaseLostError):  # the database has refused a late write
            lock.release()


def main(path: str) -> None:
    """Do jobs until none is open."""
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    with rlock.Client.from_env() as client, contextlib.closing(database):
        database.execute(TABLE)
        database.executemany("INSERT OR IGNORE INTO jobs (id) VALUES (?)", [(job,) for job in range(20)])
        while jobs := database.execute("SELECT id FROM jobs WHERE result IS NULL").fetchall():
            done = [job for (job,) in jobs if try_job(client, database, job)]
            print("done:", *done, flush=True)
            if not done:
                time.sleep(0.2)  # other workers have the rest


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database", default="jobs.db", help="the SQLite file; default: jobs.db")
    main(arguments.parse_args().database)
