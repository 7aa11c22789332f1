"""Sign-ins are recorded with the address of their connection."""

import http.client
import re
from urllib.parse import urlencode

from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent
from tests.support.factories import make_user

#: Another address of this machine than the one that requests are sent to.
ELSEWHERE = "127.0.0.2"


def test_forwarded_header_does_not_change_the_client_address(port: int, transactional_db: None) -> None:
    make_user(name="alice")
    for number, forwarded in enumerate([ELSEWHERE, f"203.0.113.9, {ELSEWHERE}", "203.0.113.9"], start=1):
        send_wrong_password(port, "alice", forwarded)
        details = [parse_json(entry.details) for entry in AuditEvent.objects.filter(kind="sign_in_failed")]
        assert [detail["address"] for detail in details] == [ELSEWHERE] * number, forwarded


def send_wrong_password(port: int, name: str, forwarded: str) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(ELSEWHERE, 0))
    client.request("GET", "/accounts/login/", headers={"X-Forwarded-For": forwarded})
    response = client.getresponse()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', response.read().decode())
    assert token is not None
    cookie = str(response.headers["Set-Cookie"]).partition(";")[0]
    content = {"csrfmiddlewaretoken": token[1], "username": name, "password": "wrong"}
    headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-For": forwarded}
    client.request("POST", "/accounts/login/", urlencode(content), headers)
    assert client.getresponse().status == 200
    client.close()
