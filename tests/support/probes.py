"""Requests that must be refused: smuggling, broken framing, everything too large."""

H = b"Host: x\r\n"
GET = b"GET /echo HTTP/1.1\r\n" + H + b"\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + H
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "length and chunked": (400, POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0"
                           b"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"),
    "xchunked": (400, POST + b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "space before colon": (400, POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    "gzip, chunked": (400, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunked on 1.0": (400, b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, POST + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"),
    "same length twice": (400, POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    "length +5": (400, POST + b"Content-Length: +5\r\n\r\nabcde"),
    "length 1_0": (400, POST + b"Content-Length: 1_0\r\n\r\nabcdeabcde"),
    "length list": (400, POST + b"Content-Length: 3, 3\r\n\r\nabc"),
    "length overflow": (400, POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc"),
    "bare line feeds": (400, b"GET /echo HTTP/1.1\nHost: x\n\n"),
    "one bare line feed": (400, b"GET /echo HTTP/1.1\r\nHost: x\nX: y\r\n\r\n"),
    "folded header": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X: a\r\n b\r\n\r\n"),
    "chunk extension with line feed": (400, CHUNKED + b"5;a\nabcde\r\n0\r\n\r\n"),
    "chunk size overflow": (400, CHUNKED + b"fffffffffffffffff\r\nabc"),
    "chunk size no number": (400, CHUNKED + b"zz\r\nabc"),
    "no host": (400, b"GET /echo HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "host with a path": (400, b"GET /echo HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "host with a space": (400, b"GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n"),
    "empty host": (400, b"GET /echo HTTP/1.1\r\nHost:\r\n\r\n"),
    "NUL in header": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X: a\x00b\r\n\r\n"),
    "CR in header": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X: a\rb\r\n\r\n"),
    "space in header name": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X Y: a\r\n\r\n"),
    "NUL in target": (400, b"GET /e\x00o HTTP/1.1\r\n" + H + b"\r\n"),
    "fragment in target": (400, b"GET /echo#part HTTP/1.1\r\n" + H + b"\r\n"),
    "authority as target": (400, b"GET example.com:80 HTTP/1.1\r\n" + H + b"\r\n"),
    "connect": (400, b"CONNECT example.com:80 HTTP/1.1\r\n" + H + b"\r\n"),
    "repeated producer id": (400, POST + b"Producer-Id: a\r\nProducer-Id: b\r\n\r\n"),
    "repeated content type": (400, POST + b"Content-Type: a/b\r\nContent-Type: a/c\r\n\r\n"),
    "repeated authorization": (400, POST + b"Authorization: a\r\nAuthorization: b\r\n\r\n"),
    "32 KiB header": (431, b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 32768 + b"\r\n\r\n"),
    "128 KiB header": (431, b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 131072 + b"\r\n\r\n"),
    "1 MiB header": (431, b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 1048576 + b"\r\n\r\n"),
    "5000 headers": (431, b"GET /echo HTTP/1.1\r\n" + H
                     + b"".join(b"x%d: y\r\n" % i for i in range(5000)) + b"\r\n"),
    "endless trailer": (431, CHUNKED + b"1\r\na\r\n0\r\nX: " + b"t" * 300_000),
    "endless chunk extension": (431, CHUNKED + b"1\r\na\r\n1;" + b"e" * 300_000),
    "64 KiB target": (414, b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\n" + H + b"\r\n"),
    "length over the limit": (413, POST + b"Content-Length: 2000000\r\n\r\nabc"),
    "chunks over the limit": (413, CHUNKED + b"100000\r\n" + bytes(0x100000) + b"\r\n1\r\na\r\n"),
    "compressed body": (415, POST + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
    "strange expectation": (400, POST + b"Expect: tea\r\nContent-Length: 3\r\n\r\nabc"),
    "HTTP/2 preface": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.2": (400, b"GET /echo HTTP/1.2\r\n" + H + b"\r\n"),
    "TLS hello": (400, bytes.fromhex("16030100a5010000a10303") + bytes(64)),
    "unknown method": (400, b"BREW /echo HTTP/1.1\r\n" + H + b"\r\n"),
    "lower-case method": (400, b"get /echo HTTP/1.1\r\n" + H + b"\r\n"),
}  # fmt: skip
