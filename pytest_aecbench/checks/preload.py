"""A shared library, made without a compiler, that writes a file when a program ends."""

from __future__ import annotations

import struct

__all__ = ["library"]

_HEADERS = 64 + 3 * 56
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_FINI, _DT_NULL = 5, 6, 10, 11, 13, 0
_READ_WRITE, _READ_WRITE_EXECUTE = 6, 7
_O_WRONLY_CREAT_TRUNC = 0x241


def library(path: str, content: bytes) -> bytes:
    """Return an x86-64 library that writes ``content`` at the end of each process."""
    data = path.encode() + b"\0"
    dynamic_at = _HEADERS
    strings_at = dynamic_at + 6 * 16
    symbols_at = strings_at + 8
    data_at = symbols_at + 24
    content_at = data_at + len(data)
    code_at = content_at + len(content)
    code = _code(code_at, data_at, content_at, len(content))
    size = code_at + len(code)
    entries = (
        (_DT_FINI, code_at),
        (_DT_STRTAB, strings_at),
        (_DT_SYMTAB, symbols_at),
        (_DT_STRSZ, 1),
        (_DT_SYMENT, 24),
        (_DT_NULL, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    # Shared object, x86-64, version 1; program headers follow this one, and there are no sections.
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    # The loader writes addresses into the dynamic entries, so all of it is writable.
    programs = (
        _program(_PT_LOAD, _READ_WRITE_EXECUTE, 0, size, 4096),
        _program(_PT_DYNAMIC, _READ_WRITE, dynamic_at, len(dynamic), 8),
        _program(_PT_GNU_STACK, _READ_WRITE, 0, 0, 16),
    )
    return b"".join((head, *programs, dynamic, bytes(8 + 24), data, content, code))


def _program(kind: int, flags: int, offset: int, size: int, align: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, offset, offset, offset, size, size, align)


def _code(code_at: int, path_at: int, content_at: int, length: int) -> bytes:
    """Return the machine code: open the file; if that works, write; return."""
    opened = b"".join(
        (
            b"\x48\x8d\x3d" + struct.pack("<i", path_at - (code_at + 7)),  # lea rdi, path
            b"\xbe" + struct.pack("<I", _O_WRONLY_CREAT_TRUNC),  # mov esi, flags
            b"\xba" + struct.pack("<I", 0o644),  # mov edx, mode
            b"\xb8\x02\0\0\0\x0f\x05",  # mov eax, open; syscall
            b"\x85\xc0",  # test eax, eax
        )
    )
    here = code_at + len(opened) + 2 + 2 + 7
    written = b"".join(
        (
            b"\x89\xc7",  # mov edi, eax
            b"\x48\x8d\x35" + struct.pack("<i", content_at - here),  # lea rsi, content
            b"\xba" + struct.pack("<I", length),  # mov edx, length
            b"\xb8\x01\0\0\0\x0f\x05",  # mov eax, write; syscall
        )
    )
    return opened + b"\x78" + bytes([len(written)]) + written + b"\xc3"  # js end; ...; ret
