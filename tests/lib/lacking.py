"""Runs a program on a kernel that seems to lack something: a system call filter makes the asking fail, in it and in
all it starts. lacking.py WHAT PROGRAM ARGS...; WHAT: netfilter (no nf_tables socket)."""
import ctypes
import errno
import os
import struct
import sys

LD, JEQ, RET = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7fff0000, 0x00050000


def op(code, jt, jf, k):
    return struct.pack("=HBBI", code, jt, jf, k)


def arg(n):
    return op(LD, 0, 0, 16 + 8 * n)


NETFILTER = [op(LD, 0, 0, 0), op(JEQ, 0, 5, 41), arg(0), op(JEQ, 0, 3, 16), arg(2), op(JEQ, 0, 1, 12),
             op(RET, 0, 0, ERRNO | errno.EPROTONOSUPPORT), op(RET, 0, 0, ALLOW)]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def main():
    code = b"".join({"netfilter": NETFILTER}[sys.argv[1]])
    c = ctypes.CDLL(None, use_errno=True)
    p = Program(len(code) // 8, code)
    if c.prctl(38, 1, 0, 0, 0) != 0 or c.prctl(22, 2, ctypes.byref(p), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    os.execvp(sys.argv[2], sys.argv[2:])


main()
