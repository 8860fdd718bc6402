"""Threads of Python: a pool fed through a queue, and a counter behind a lock. All of them take turns on the
interpreter lock. An argument: how many times the work."""

import queue
import sys
import threading

WORKERS = 4
ITEMS = 20_011 * int(sys.argv[1] if len(sys.argv) > 1 else 1)

items: "queue.Queue[int | None]" = queue.Queue(maxsize=64)
lock = threading.Lock()
total = 0


def digits(number: int) -> int:
    return sum(int(digit) for digit in str(number**7))


def work() -> None:
    global total
    while (item := items.get()) is not None:
        value = digits(item)
        with lock:
            total += value


workers = [threading.Thread(target=work, name=f"worker-{i}") for i in range(WORKERS)]
for worker in workers:
    worker.start()
for item in range(ITEMS):
    items.put(item)
for _ in workers:
    items.put(None)
for worker in workers:
    worker.join()
print(f"{ITEMS} items, total {total}")
