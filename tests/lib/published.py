"""The published ways round gates like this one, numbered, and proof that each was tried: a test that tries one is marked
@way(numbers), and must have shown four things of it, in numbers it cannot leave out: the verdict, the reason, how many
records there are, and what reached the other side (nothing, where it is refused). Each file ends with a case that fails for a way of its
own that nobody has proved, for root and for an ordinary user. Run as a program it says which way has no test at all (lint)."""
import ast
import os
import sys

# number: the way, the files of tests/gate that try it
WAYS = {
    1: ("a NUL or another odd byte in a name", "cases.t"),
    2: ("letter case, a last dot, a port in the name", "cases.t"),
    3: ("suffixes that are not labels, the name itself", "cases.t"),
    4: ("letters that look alike, other dots, broken xn--", "cases.t"),
    5: ("inner addresses: mapped, translated, tunnelled", "cases.t"),
    6: ("private, shared and reserved addresses", "cases.t"),
    7: ("a name of the attacker's for an inner address", "cases.t"),
    8: ("another answer between check and connect", "cases.t"),
    9: ("two names at one address", "cases.t"),
    10: ("an allowed SNI, Host or hosts file for another address", "cases.t"),
    11: ("an allowed SNI, another name inside", "cases.t inspect.t"),
    12: ("hellos in pieces, and endless ones", "cases.t"),
    13: ("an allowed request and a refused one in one write", "inspect.t"),
    14: ("one denied host by every way", "cases.t"),
    15: ("ports that nobody watches", "cases.t"),
    16: ("root of the network namespace changes it", "cases.t"),
    17: ("programs that know no proxy, or their own", "cases.t"),
    18: ("other rules, and broken ones, while connections run", "reload.t"),
    19: ("no rules, missing rules, a missing part, a lost gate", "cases.t gate.t"),
    20: ("data in questions for names", "cases.t"),
    21: ("a secret asked for in the clear, at another's address", "inspect.t"),
    22: ("a secret echoed, redirected, sent elsewhere", "inspect.t"),
    23: ("connecting without connect(2)", "cases.t"),
    24: ("a port that local rules leave open", "cases.t"),
    25: ("the host by its gateway's addresses and names", "cases.t"),
    26: ("upgrades, and framing that two readers take differently", "inspect.t"),
    27: ("a company's proxy that resolves otherwise, and is chosen inside", "proxy.t"),
    28: ("an alias of an unlisted name", "cases.t"),
    29: ("an address used again by another sandbox", "cases.t"),
    30: ("the gate's own listener", "cases.t"),
    31: ("socket families that know no network namespace", "cases.t"),
}
assert sorted(WAYS) == list(range(1, 32))

_now = ()       # what the running case tries
_proved = {}    # (number, mode): what was shown, a line each


def proved(*, verdict, reason, records, upstream):
    """Something was tried and compared with what is: deny or allow (None: there was no gate to ask), a word of the
    reasons or of what the program was told, the number of records, what the other side saw. For those who have compared."""
    for n in _now:
        _proved.setdefault((n, _mode[0]), []).append((verdict, reason, records, tuple(upstream)))


_mode = [""]


def way(*numbers):
    """Of a case: it tries these, and fails when it has proved nothing of them. Stands below @case."""
    def mark(fn):
        def tried(m):
            global _now  # pylint: disable=global-statement
            _now, _mode[0] = numbers, m.name
            before = {n: len(_proved.get((n, m.name), ())) for n in numbers}
            try:
                fn(m)
            finally:
                _now = ()
            for n in numbers:
                if len(_proved.get((n, m.name), ())) == before[n]:
                    raise AssertionError(f"way {n} ({WAYS[n][0]}): tried, and nothing was compared")
        tried.__name__ = fn.__name__
        return tried
    return mark


def of_file(path):
    name = os.path.basename(path)
    return [n for n, (_, files) in WAYS.items() if name in files.split()]


def all_proved(path, m):
    """The last case of a file: each of its ways was proved for this caller."""
    left = [f"{n} ({WAYS[n][0]})" for n in of_file(path) if not _proved.get((n, m.name))]
    if left:
        raise AssertionError("not proved: " + ", ".join(left))
    # a way round is refused, or at least shown to gain nothing: an allowed way has its records and what it reached all the same
    for n in of_file(path):
        print(f"# way {n}: {len(_proved[n, m.name])} attempts: {WAYS[n][0]}")


def marked(path):
    """The numbers that the cases of a file are marked with."""
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    return {a.value for fn in tree.body if isinstance(fn, ast.FunctionDef) for d in fn.decorator_list
            if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "way" for a in d.args}


def missing(folder):
    """What the table says and no file does."""
    out = []
    for n, (text, files) in WAYS.items():
        for name in files.split():
            path = os.path.join(folder, name)
            if not os.path.exists(path) or n not in marked(path):
                out.append(f"way {n} ({text}): no case of {name} is marked @way({n})")
            elif "gateworld.run(__file__, W)" not in open(path, encoding="utf-8").read():  # pylint: disable=consider-using-with
                out.append(f"{name}: does not end with gateworld.run, whose last case is all_proved")
    return out


if __name__ == "__main__":
    LEFT = missing(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gate"))
    print("\n".join(LEFT), end="\n" if LEFT else "")
    sys.exit(1 if LEFT else 0)
