"""Secrets in notations of configurations, languages and terminals, and similar texts that are not secret."""

import pytest

from harness_site.core.masking import masker
from harness_site.core.masking.find_known_secret_values import MAX_KNOWN_VALUES
from harness_site.core.masking.masker import MASK, mask_json_value, mask_text, use_masking_rules_with_extra_values
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.linear_growth import processor_seconds

TAIL = "aaaa1111cccc1111ddd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl -sSLu bob:Hunter1x https://x.example", f"curl -sSLu {MASK} https://x.example"),
        ("curl -u :Hunter1x https://x.example", f"curl -u {MASK} https://x.example"),
        ('{"name":"password","type":"str","value":"Hunter1x"}', f'{{"name":"password","type":"str","value":"{MASK}"}}'),
        ('{"k":"Authorization","v":"Hunter1x"}', f'{{"k":"Authorization","v":"{MASK}"}}'),
        ('{"id":"password","value":"Hunter1x"}', f'{{"id":"password","value":"{MASK}"}}'),
        ('{"password":\n   "Hunter1x"}', f'{{"password":\n   "{MASK}"}}'),
        ("password:\n  Hunter1x\nnext: 1", f"password:\n  {MASK}\nnext: 1"),
        ("password: |\n  Hunter1x\n", f"password: |\n  {MASK}\n"),
        ("passwords:\n  - Hunter1x\n  - Hunter2y\nnext: 1", f"passwords:\n  - {MASK}\nnext: 1"),
        ("password=(\n", "password=(\n"),
        ("password=Hunter1x\\(\n", f"password={MASK}(\n"),
        ('password = """Hunter1x"""', f'password = """{MASK}"""'),
        ("password = b'Hunter1x'", f"password = b'{MASK}'"),
        ("password=$'Hunter1x'", f"password=$'{MASK}'"),
        ('password: str = "Hunter1x"', f'password: str = "{MASK}"'),
        (f"password={MASK}Hunter1x", f"password={MASK}{MASK}"),
        ("x" * 301 + "_password=Hunter1x", "x" * 301 + f"_password={MASK}"),
        ("ALTER USER bob WITH PASSWORD 'Hunter1x';", f"ALTER USER bob WITH PASSWORD '{MASK}';"),
        ("CREATE USER bob IDENTIFIED BY 'Hunter1x';", f"CREATE USER bob IDENTIFIED BY '{MASK}';"),
        ("machine x login bob password Hunter1x", f"machine x login bob password {MASK}"),
        ("setenv API_TOKEN Hunter1x", f"setenv API_TOKEN {MASK}"),
        ("ENV API_TOKEN Hunter1x", f"ENV API_TOKEN {MASK}"),
        ("tool --pass Hunter1x", f"tool --pass {MASK}"),
        ('setPassword("Hunter1x")', f'setPassword("{MASK}")'),
        ("- name: DB_PASSWORD\n  value: Hunter1x\n", f"- name: DB_PASSWORD\n  value: {MASK}\n"),
        ("('password', 'Hunter1x')", f"('password', '{MASK}')"),
        ("define('DB_PASSWORD', 'Hunter1x');", f"define('DB_PASSWORD', '{MASK}');"),
        ('["--token", "Hunter1x"]', f'["--token", "{MASK}"]'),
        ('<string name="api_key">Hunter1x</string>', f'<string name="api_key">{MASK}</string>'),
        ("<key>password</key>\n<string>Hunter1x</string>", f"<key>password</key>\n<string>{MASK}</string>"),
        ('<input type="password" value="Hunter1x">', f'<input type="password" value="{MASK}">'),
        ("redis-cli -h db -a Hunter1x", f"redis-cli -h db -a {MASK}"),
        ("openssl rsa -passin pass:Hunter1x -in a", f"openssl rsa -passin pass:{MASK} -in a"),
        ("密码：Hunter1x", f"密码：{MASK}"),
        ("mot de passe : Hunter1x", f"mot de passe : {MASK}"),
        ("| password | Hunter1x |", f"| password | {MASK} |"),
        ('<input name="password" value="Hunter1x">', f'<input name="password" value="{MASK}">'),
        ('<add key="ApiKey" value="Hunter1x"/>', f'<add key="ApiKey" value="{MASK}"/>'),
        ("<password><![CDATA[Hunter1x]]></password>", f"<password><![CDATA[{MASK}]]></password>"),
        ("<ns:password>Hunter1x</ns:password>", f"<ns:password>{MASK}</ns:password>"),
        ('form-data; name="password"\r\n\r\nHunter1x\r\n', f'form-data; name="password"\r\n\r\n{MASK}\r\n'),
        ("password\uff1aHunter1x", f"password\uff1a{MASK}"),
        ("password\u00a0:\u00a0Hunter1x", f"password\u00a0:\u00a0{MASK}"),
        ("Bearer\tabcdefg1234", f"Bearer\t{MASK}"),
        ("send bearer sk-proj-abcdefghijkl", f"send bearer {MASK}"),
        ("Authorization: Custom abcdefg1234", f"Authorization: {MASK}"),
        ("https://abcdefghij0123456789@github.example/x", f"https://{MASK}@github.example/x"),
        ("4111.1111.1111.1111", MASK),
        ("DE05 4514 0604 5246 1416 38", f"DE05 {MASK} 38"),  # no IBAN: the check digits are wrong
        ("DE04 4514 0604 5246 1416 38 4514 0604 5246 1416", f"DE04 4514 0604 5246 1416 38 {MASK}"),
        ("No1 4111 1111 1111 1111", f"No1 {MASK}"),
        ("4111 1111 1111 1111 1st", f"{MASK} 1st"),
        ("ZZ04 4514 0604 5246 1416 38", f"ZZ04 {MASK} 38"),
        ("4111\u00a01111\u00a01111\u00a01111", MASK),
        ("4111\u20111111\u20111111\u20111111", MASK),
        ("Passwort: Hunter1x", f"Passwort: {MASK}"),
    ],
)
def test_secret_is_detected_in_its_notation(text: str, shown: str) -> None:
    assert mask_text(text) == shown


@pytest.mark.parametrize(
    "between",
    [
        *("\x1b]0;title\x07", "\x1b]8;;http://x.example\x1b\\", "\x1b(B", "\x9b31m", "\x1b[>4;1h"),
        *("\ufe0f", "\U000e0041", "\u034f", "\u3164", "\ud800", "\u200d", "\u00ad", "\ufeff"),
    ],
)
def test_invisible_characters_do_not_split_a_token(between: str) -> None:
    assert mask_text(f"sk_li{between}ve_{TAIL} x") == f"{MASK} x"


@pytest.mark.parametrize(
    "text",
    [
        f"sk_live_[aaaa1111][x]{TAIL}",
        f'sk_live_[aaaa1111](http://x.example "title"){TAIL}',
        f"sk_live_![aaaa1111](http://x.example){TAIL}",
        f"sk\\u{{5f}}live\\u{{5f}}{TAIL}",
        f"sk\\137live\\137{TAIL}",
        f"sk\\U0000005flive_{TAIL}",
        f"\uff53\uff4b\uff3f\uff4c\uff49\uff56\uff45\uff3f{TAIL}",
    ],
)
def test_token_is_detected_as_displayed(text: str) -> None:
    assert "cccc1111" not in mask_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
        "sq0atp-abcdefghijklmnopqrstuv",
        "ntn_123456789012abcdefghijklmnopqrstuvwxyz0123456",
        "figd_abcdefghijklmnopqrstuvwxyz0123456789abcd",
        "pscale_tkn_abcdefghijklmnopqrstuvwxyz0123456789",
        "dp.pt.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG",
        "HRKU-01234567-89ab-cdef-0123-456789abcdef",
        "xai-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ",
        "pplx-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ",
        "sntrys_eyJpYXQiOjE2_abcdefghijklmnopqrst",
        "NRAK-ABCDEFGHIJKLMNOPQRSTUVWXYZ1",
        "tvly-abcdefghijklmnopqrstuvwxyz",
        "nvapi-abcdefghijklmnopqrstuvwxyz0123456789",
        "sk-lf-01234567-89ab-cdef-0123-456789abcdef",
        "lsv2_pt_0123456789abcdef0123456789abcdef_0123456789",
        "SK0123456789abcdef0123456789abcdef",
    ],
)
def test_tokens_of_services_are_detected(text: str) -> None:
    assert mask_text(f"key {text} end") == f"key {MASK} end"


@pytest.mark.parametrize(
    "name",
    ["token1", "access_token_2", "api_key_prod", "tokenValue", "auth_header", "ssh_key", "pass\x1b[0mword", "pswd"],
)
def test_secret_name_may_have_a_suffix(name: str) -> None:
    assert mask_json_value({name: "hunter"}) == {name: MASK}


@pytest.mark.parametrize(
    "text",
    [
        "| total_tokens | 1,200 |",
        "| token | what it is for |",
        "password:\n\nYou will get it by mail.",
        "credentials:\n  user: bob",
        '<input type="password" placeholder="Password">',
        "the secret 'shop-db' was not found",
        "docker run -itu 1000:1000 image",
        "fields: ['password', 'email']",
        "latitude 4123.4567, 4123.456789012345",
        "getpass('Prompt')",
        "PASS: tests/test_1.py",
    ],
)
def test_similar_text_is_not_masked(text: str) -> None:
    assert mask_text(text) == text


class TestKnownValues:
    @only_exhaustive
    def test_many_values_with_common_prefixes_take_bounded_work(self) -> None:
        values = [[letter * (4 + number) for number in range(MAX_KNOWN_VALUES)] for letter in "a!"]
        values += [["a" * (15_000 + number) for number in range(20)], [f"v{number:06}" for number in range(50_000)]]
        for each in values:
            for text in ("a" * 1_000_000, "!" * 1_000_000, "aaaaaa " * 100_000 + "\u2026"):
                with use_masking_rules_with_extra_values(each):
                    assert processor_seconds(lambda: masker.mask_text(text)) < 20.0  # noqa: B023

    def test_text_that_hides_a_known_value_is_masked_completely(self) -> None:
        with use_masking_rules_with_extra_values(["a" * (4 + number) for number in range(MAX_KNOWN_VALUES)]):
            assert mask_text("a" * 100_000 + " aaaa") == MASK

    def test_frequent_short_word_in_a_long_text_is_not_masked(self) -> None:
        with use_masking_rules_with_extra_values(["test"]):
            text = "tested and testing " * 20_000
            assert mask_text(f"{text}test") == f"{text}{MASK}"
