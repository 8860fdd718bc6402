"""The machine: what it is, and whether others leave it alone."""

import os
import platform
import time


def _idle_and_total() -> tuple[int, int]:
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def wait_until_quiet(patience_s: float, idle_ratio: float = 0.85, window_s: float = 0.25) -> bool:
    """Waits until the processors are idle, or until patience ends. Whether they are."""
    deadline = time.monotonic() + patience_s
    while True:
        idle, total = _idle_and_total()
        time.sleep(window_s)
        idle_after, total_after = _idle_and_total()
        if idle_after - idle >= idle_ratio * max(total_after - total, 1):
            return True
        if time.monotonic() >= deadline:
            return False


def describe() -> str:
    """Processor, number of them, memory, kernel and C library, in one line."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    libc = " ".join(platform.libc_ver())
    return (
        f"{model}, {len(os.sched_getaffinity(0))} processors, {pages / 2**30:.0f} GiB, "
        f"Linux {platform.release()}, {libc}"
    )


def shared_memory_used_bytes() -> int:
    """What /dev/shm holds: a recording lives there until it is written."""
    try:
        space = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return (space.f_blocks - space.f_bfree) * space.f_frsize
