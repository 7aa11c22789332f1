import http.client
import smtplib
import socket
import ssl

import pytest
from django.utils import translation

from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.notifications.delivery_error_text import build_delivery_error_sentence
from harness_site.notifications.safe_http import AddressRefused
from harness_site.send_email import NoMailServer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AddressRefused("It leads inside."), "It leads inside."),
        (NoMailServer(), "No mail server is set. Set HARNESS_EMAIL_URL and restart the site."),
        (socket.gaierror(-2, "Name or service not known"), "The host name does not exist."),
        (ConnectionRefusedError(111, "Connection refused"), "The server refused the connection."),
        (TimeoutError("timed out"), "The server did not answer in time."),
        (http.client.RemoteDisconnected("closed"), "The connection was lost before an answer came."),
        (http.client.BadStatusLine("SSH-2.0"), "The answer was not HTTP: SSH-2.0"),
        (smtplib.SMTPServerDisconnected("please run connect() first"), "The mail server closed the connection."),
        (
            ssl.SSLCertVerificationError(1, "self-signed certificate"),
            "The server's certificate is not trusted. Use",
        ),
        (
            smtplib.SMTPRecipientsRefused({"a@b": (550, b"no")}),
            "The mail server refused the recipient. Check",
        ),
        (smtplib.SMTPSenderRefused(530, b"Authentication required", "a@b"), "The mail server wants a user name and"),
        (
            smtplib.SMTPSenderRefused(530, b"Must issue STARTTLS", "a@b"),
            "The mail server wants an encrypted connection.",
        ),
        (OSError(101, "Network is unreachable"), "No connection could be made. Check host, port and firewall: "),
        (smtplib.SMTPResponseException(421, b"too busy"), "The mail server cannot take the message now."),
        (smtplib.SMTPNotSupportedError("SMTPUTF8 not supported"), "The mail server does not take addresses with"),
        (ValueError("x" * 900), "ValueError: xxx"),
    ],
)
def test_delivery_error_messages(error: Exception, words: str) -> None:
    sentence = build_delivery_error_sentence(error)
    assert str(sentence).startswith(words)
    assert all(len(value) <= 500 for value in sentence.values.values())


def test_refused_password_is_not_shown() -> None:
    text = str(
        build_delivery_error_sentence(smtplib.SMTPAuthenticationError(535, b"bad credentials for har@example.com"))
    )
    assert text == "The mail server refused the user name and password. Check them in HARNESS_EMAIL_URL."


@pytest.mark.parametrize(
    ("error", "german"),
    [
        (NoMailServer(), "Es ist kein Mailserver eingestellt."),
        (OSError(101, "Network is unreachable"), "Es konnte keine Verbindung hergestellt werden."),
        (http.client.BadStatusLine("SSH-2.0"), "Die Antwort war kein HTTP: SSH-2.0"),
    ],
)
def test_description_is_stored_in_english_and_shown_in_the_language_of_the_reader(
    error: Exception, german: str
) -> None:
    with translation.override("de"):
        sentence = build_delivery_error_sentence(error)
    with translation.override("en"):
        assert sentence.english == str(sentence)
    with translation.override("de"):
        assert str(StoredSentence(sentence.text, sentence.values)).startswith(german)
