"""Webhooks reach the public Internet and nothing else, however the address is dressed."""

import ipaddress

import pytest

from millstream.core.errors import Code, Refused
from millstream.server.ssrf import Guard, WebhookTarget, is_public, literal_address, unwrap

PUBLIC = Guard(may_be_local=False)
LOCAL = Guard(may_be_local=True)
PRIVATE = Guard(may_be_local=False, may_be_private=True)

FORBIDDEN = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::a9fe:a9fe",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::80ff:fffe",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:a00:1::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
    "5f00::1",
]
ALLOWED = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "64:ff9b::808:808",
    "2002:808:808::1",
    "::ffff:8.8.8.8",
]


def refused(answer: object) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


def url_of(address: str) -> str:
    return f"https://[{address}]/hook" if ":" in address else f"https://{address}/hook"


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_local_private_or_special_address_is_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    answer = refused(PUBLIC.check_url(url_of(address)))
    assert (answer.code, answer.field) == (Code.WEBHOOK_URL_REJECTED, "webhook.url")


@pytest.mark.parametrize("address", FORBIDDEN)
def test_a_name_that_leads_to_such_an_address_is_stopped_there(address: str) -> None:
    target = PUBLIC.check_url("https://rebound.test/hook")
    assert isinstance(target, WebhookTarget)
    for guard in (PUBLIC, LOCAL):
        assert guard.broken_rule(target, ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize("address", ALLOWED)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
    assert isinstance(PUBLIC.check_url(url_of(address)), WebhookTarget)


@pytest.mark.parametrize(
    "host", ["0x7f.1", "2130706433", "127.1", "0177.0.0.1", "0x7f000001", "127.0.0.1.", "1.2.3.4.5"]
)
def test_an_address_in_disguise_is_refused(host: str) -> None:
    for guard in (PUBLIC, LOCAL, PRIVATE):
        assert refused(guard.check_url(f"https://{host}/")).code is Code.WEBHOOK_URL_REJECTED


@pytest.mark.parametrize(
    "url",
    [
        "",
        "worker.example",
        "/hook",
        "ftp://worker.example/",
        "file:///etc/passwd",
        "http://worker.example/",
        "https://",
        "https:///hook",
        "https://user@worker.example/",
        "https://user:secret@worker.example/",
        "https://worker.example/#part",
        "https://worker.example:0/",
        "https://worker.example:99999/",
        "https://worker.example:x/",
        "https://worker.example:22/",
        "https://worker.example:25/",
        "https://worker example/",
        "https://worker.example/a b",
        "https://worker.example/\r\nX: y",
        "https://worker.example\\@10.0.0.1/",
        "https://wörker.example/",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "https://-worker.example/",
        "https://worker..example/",
        "https://" + "a" * 254 + "/",
    ],
)
def test_a_url_that_is_none_of_ours_is_refused(url: str) -> None:
    assert refused(PUBLIC.check_url(url)).code is Code.WEBHOOK_URL_REJECTED


LOCAL_URLS = [
    "http://localhost:9000/hook",
    "http://127.0.0.1:9000/hook",
    "http://127.0.0.5/hook",
    "http://[::1]:9000/hook",
    "https://localhost:9000/hook",
]


@pytest.mark.parametrize("url", LOCAL_URLS)
def test_local_receivers_are_for_local_servers(url: str) -> None:
    assert isinstance(LOCAL.check_url(url), WebhookTarget)
    assert isinstance(PRIVATE.check_url(url), WebhookTarget)
    assert refused(PUBLIC.check_url(url)).code is Code.WEBHOOK_URL_REJECTED


def test_a_local_server_still_refuses_its_network() -> None:
    for url in ("http://10.0.0.1/hook", "https://192.168.0.1/", "http://worker.example/"):
        assert refused(LOCAL.check_url(url)).code is Code.WEBHOOK_URL_REJECTED


def test_localhost_must_mean_this_machine() -> None:
    target = LOCAL.check_url("http://localhost:9000/")
    assert isinstance(target, WebhookTarget)
    assert LOCAL.broken_rule(target, ipaddress.ip_address("127.0.0.1")) is None
    assert LOCAL.broken_rule(target, ipaddress.ip_address("::1")) is None
    assert LOCAL.broken_rule(target, ipaddress.ip_address("10.0.0.1")) is not None
    assert LOCAL.broken_rule(target, ipaddress.ip_address("8.8.8.8")) is not None
    assert PUBLIC.broken_rule(target, ipaddress.ip_address("127.0.0.1")) is not None


def test_private_networks_are_open_when_the_operator_says_so() -> None:
    for url in ("http://10.0.0.1/hook", "http://worker:8080/", "https://[fd00::1]/"):
        assert isinstance(PRIVATE.check_url(url), WebhookTarget)
    for url in ("http://0.0.0.0/", "http://224.0.0.1/", "http://[ff02::1]/"):
        assert refused(PRIVATE.check_url(url)).code is Code.WEBHOOK_URL_REJECTED


def test_a_target_keeps_what_the_request_needs() -> None:
    assert PUBLIC.check_url("https://Worker.Example:8443/a/b?c=d") == WebhookTarget(
        True, "worker.example", 8443, "Worker.Example:8443", "/a/b?c=d", False
    )
    assert LOCAL.check_url("http://[::1]:80") == WebhookTarget(
        False, "::1", 80, "[::1]:80", "/", True
    )


def test_wrapped_addresses_are_unwrapped() -> None:
    assert str(unwrap(ipaddress.ip_address("2002:7f00:1::"))) == "127.0.0.1"
    assert str(unwrap(ipaddress.ip_address("64:ff9b::a9fe:a9fe"))) == "169.254.169.254"
    assert str(unwrap(ipaddress.ip_address("::1"))) == "::1"
    assert str(unwrap(ipaddress.ip_address("8.8.8.8"))) == "8.8.8.8"
    assert literal_address("worker.example") is None
