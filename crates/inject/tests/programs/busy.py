# Uses much of the interpreter, and prints what must be the same every time.
import collections, functools, gc, hashlib, itertools, json, math, random, re, struct, sys
import threading, zlib

print("ready", flush=True)
sys.stdin.readline()


class Node:
    __slots__ = ("value", "next", "__weakref__")

    def __init__(self, value, next=None):
        self.value = value
        self.next = next


class Meta(type):
    def __new__(cls, name, bases, body):
        return super().__new__(cls, name, bases, {**body, "made": name})


@functools.lru_cache(maxsize=64)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def raises(depth):
    if depth == 0:
        raise ValueError("bottom")
    try:
        raises(depth - 1)
    finally:
        pass


def generate(n):
    for i in range(n):
        got = yield i * i
        if got:
            yield got


def one_round(seed):
    chance = random.Random(seed)
    data = [chance.randrange(10000) for _ in range(300)]
    text = json.dumps({"data": data, "nested": [{"k": i, "v": str(i)} for i in range(50)]})
    back = json.loads(text)
    words = re.findall(r"(\w+)\": \"?(\d+)", text)
    counts = collections.Counter(w for w, _ in words)
    packed = struct.pack("<300I", *data)
    digest = hashlib.sha256(zlib.compress(packed)).hexdigest()
    caught = 0
    for _ in range(5):
        try:
            raises(20)
        except ValueError as e:
            caught += len(str(e))
    ring = Node(1)
    ring.next = Node(2, ring)
    gc.collect()
    made = Meta(f"Made{seed}", (dict,), {"x": 1})
    g = generate(10)
    values = [next(g), g.send("s"), *g]
    table = sorted(data, key=lambda v: (v % 7, -v))
    matrix = [[sum(a * b for a, b in zip(r, c)) for c in zip(*[data[:9]] * 3)] for r in [data[:3]] * 3]
    namespace = {}
    exec(compile("def f(a, *b, c=3, **d):\n  return (a, b, c, sorted(d))\nr = f(1, 2, x=4)", "x", "exec"), namespace)
    return (back["data"] == data, counts.most_common(2), digest, caught, made.made, values,
            table[:5], matrix[0], namespace["r"], fibonacci(60), math.fsum(data),
            "%s|%05.2f|%-7s" % (seed, seed / 3, "ab"), list(itertools.islice(itertools.permutations("abcd"), 20))[-1])


results = [None] * 3


def worker(i):
    results[i] = [one_round(i * 100 + k) for k in range(12)]


threads = [threading.Thread(target=worker, args=(i,)) for i in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(hashlib.sha256(repr(results).encode()).hexdigest(), flush=True)
sys.stdin.readline()
