"""Secrets that follow an option, or stand in a place, of a program that is known: rows of data.

A row of `_OPTIONS` is what its command line must hold, and the options behind which a secret is its next word, or is
joined by `=`. A row of `_PLACES` is the same for what stands without an option; `S` is the secret. Sources are the
programs' own manuals.
"""

import re
from typing import NamedTuple


class Shape(NamedTuple):
    """One row."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    of_option: bool = False
    """Does it need an option with a dash at a word's beginning?"""


_VALUE = r"(\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|(?![-$<{(\"'|&;>*])[^\s\"'|;]{1,400})"
_BEGIN = r"(?<![^\s\"'`(,])"

_OPTIONS = (
    ("openssl ", "-k -K -hmac -psk -srppass"),
    ("keytool", "-new"),
    ("ldappasswd", "-s -a"),
    ("kadmin|addprinc|ipa-|ldap", "-w"),
    ("snmp", "-A -X -c"),
    ("isql|tsql|mosquitto_", "-P"),
    (
        "cqlsh|couchbase|twine |racadm|rdesktop|ncftp|useradd|usermod|rabbitmqadmin|crane |poetry |redfish|cypher-shell"
        "|yt-dlp|gallery-dl|xmrig|beeline|fence_|veracrypt|bitbucket|remote login",
        "-p",
    ),
    ("pkcs1|softhsm|piv-tool", "--pin --so-pin -P"),
    ("ceph |rbd ", "--key --secret"),
    ("pdfto|pdfinfo|pdfimages", "-upw -opw"),
    ("swaks |sipp |sendemail", "-ap -xp"),
    ("-generic-password|-internet-password", "-w"),
    ("tmate", "-k"),
    ("p4 ", "-P"),
    ("npm |sse-c", "--otp --sse-c-key --sse-customer-key"),
    ("ssh-keygen", "-N -P"),
    ("pk12util", "-K -W"),
    ("swift ", "-K"),
    ("doctl|flyctl|fly auth|glab |anaconda |codecov", "-t"),
    ("nuget ", "-k -ApiKey --api-key"),
    ("signtool", "/p"),
    ("pdftk", "user_pw owner_pw input_pw"),
    ("nmcli", "password wifi-sec.psk 802-11-wireless-security.psk 802-1x.password"),
    (
        " modify | config ",
        "password secret_access_key token pass client_secret",
    ),
)

_PLACES = (
    ("wandb",
     r"wandb(?::? ) {0,3}login {1,3}(?:--?[\w-]{1,30}(?:=\S{1,200})? {1,3}){0,4}((?=[\w-]{0,90}\d)[\w-]{8,120})"),
    ("alias set |config host add ",
     r"(?:alias set|config host add) {1,3}\S{1,100} {1,3}\S{1,300} {1,3}\S{1,200} {1,3}S"),
    ("admin user ", r"mc admin user (?:svcacct )?add {1,3}\S{1,100} {1,3}\S{1,200} {1,3}S"),
    ("lftp", r"-u {0,3}[^\s,]{1,100},S"),
    ("passwd",
     r"passwd {1,3}-[a-zA-Z]{0,8}b[a-zA-Z]{0,8} {1,3}(?:\S{1,200} {1,3}){1,2}?S(?=\s{0,3}(?:$|[|;&\n\"']))"),
    ("mysqladmin", r"mysqladmin\b[^\n]{0,200}? password {1,3}S"),
    ("rabbitmq", r"rabbitmqctl {1,3}(?:add_user|change_password|authenticate_user) {1,3}\S{1,100} {1,3}S"),
    ("sqlplus|xpdp|mpdp|sqlldr|rman ",
     r"\b(?:sqlplus|expdp|impdp|sqlldr|rman|exp|imp)\b[^\n/]{0,100} \w{1,30}/([^\s@/]{1,100})"),
    (":pserver:|:ext:", r":(?:pserver|ext):[^\s:@]{1,100}:([^\s@]{1,200})@"),
    (" login| obscure|passwd|setapikey|setApiKey| unseal| unlock",
     r"(?:cargo login|rclone obscure|openssl passwd|mkpasswd|set[aA]pi[kK]ey|operator unseal|vault unseal|bw unlock)"
     r"(?: {1,3}-m {1,3}[\w-]{1,20}| {1,3}-{1,2}[\w-]{1,20}(?:=\S{1,40})?){0,3} {1,3}S"),
    (" login", r"bw login {1,3}\S{1,200} {1,3}S"),
    ("pypi-token|http-basic", r"config {1,3}(?:pypi-token\.\S{1,60}|http-basic\.\S{1,60} {1,3}\S{1,100}) {1,3}S"),
    (":_authToken ", r":_authToken {1,3}S"),
    ("etcdctl", r"--user[ =]{1,3}[^\s:]{1,100}:S"),
    ("passwd", r"chpasswd\b[^\n]{0,60}<<< {0,3}[\"']?[^\s:\"']{1,100}:([^\s\"']{1,200})"),
    ("--stdin", r"--stdin\b[^\n]{0,60}<<< {0,3}S"),
    # kinit bob <<< hunter2        --key-file <(echo hunter2)        --extpass "echo hunter2"
    ("<<<",
     r"(?:passw|pass |kinit|secret-tool|stdin|luks|cryptsetup|realm join| login|with-token|pbkdf2)"
     r"[^\n]{0,120}?<<< {0,3}S"),
    ("<(", r"(?:pass|key|pin|secret| -[fK])[^\n]{0,60}?<\((?:echo|printf)(?: -n)? {1,3}(?:[\"']%s(?:\\n)?[\"'] )?S"),
    ("echo ", r"(?i)pass(?:word|phrase)?[-_]?(?:command|eval|cmd)?[= ][\"']?echo {1,3}S"),
    ("kinit", r"(?:echo|printf) {1,3}(?:-n )?S {0,3}\| {0,3}kinit"),
    ("net use ", r"net use (?:\w: )?\\{1,4}\S{1,200} {1,3}((?![/-])[^\s\"']{1,200})"),
    ("authtoken|set api-key|snyk auth|GenieKey|-password ",
     r"(?:authtoken|set api-key|snyk auth|GenieKey|(?:reset-admin|set-initial)-password) {1,3}S"),
    ("auth_pass|insecure-password", r"\b(?:auth_pass|insecure-password) {1,9}S"),
    ("set --secret|config --set",
     r"config (?:set --secret {1,3}\S{1,100}|--set {1,3}\w{0,40}(?:token|password)) {1,3}S"),
    ("radtest", r"radtest {1,3}\S{1,100} {1,3}S"),
    ("psk \"|PSK \"|EAP \"|XAUTH \"", r"(?:psk|PSK|EAP|XAUTH) (\"[^\"\n]{1,200}\")"),
    ("iscsiadm", r"password(?:_in)? {1,3}-v {1,3}S"),
    ("samba-tool", r"user (?:create|add) {1,3}\S{1,100} {1,3}S"),
    ("transmission", r"(?<!\S)-n {1,3}[^\s:]{1,100}:S"),
    ("sonar.login", r"sonar\.login=S"),
    ("private-key ", r"wg set \S{1,40} {1,3}private-key {1,3}((?!/)[^\s\"']{12,200})"),
    ("username\"", r"\"username\" ?: ?\"[^\"]{0,100}\", ?\"key\" ?: ?(\"[^\"]{8,200}\")"),
    ("key provided", r"(?i)api key provided: {1,2}((?=\S{0,80}\d)\S{8,400})"),
    ("login=", r"(?<![\w-])login=[^\s:,]{1,100}:S"),
    ("cifs", r"(?<![^\s,])user(?:name)?=[^\s,%]{1,100}%([^\s,]{1,200})"),
    ("routing_key", r"routing_key[\"']{0,2} ?[=:] ?[\"']?([0-9A-Za-z]{32,64})(?![\w.])"),
    (" using ", r"connect to \S{1,100} user \S{1,100} using S"),
    ("uthorization ", r"(?i)authorization {1,3}[\"'](?:basic|bearer|token) {1,3}([^\"'\n]{1,2000})"),
    ("net user ", r"net user {1,3}\S{1,100} {1,3}S"),
    ("cryptsetup", r"(?:echo|printf) {1,3}(?:-n )?S {0,3}\| {0,3}(?:sudo )?cryptsetup"),
    ("passphrase", r"wpa_passphrase {1,3}(?:\"[^\"]{1,60}\"|\S{1,60}) {1,3}S"),
    ("secret-set-value", r"secret-set-value {1,3}(?:--secret {1,3})?\S{1,100} {1,3}(?:--base64 {1,3})?S"),
    ("-object secret", r"-object secret,[^\s]{0,100}?data=([^\s,]{1,200})"),
    ("rdp", r"(?<!\S)/(?:p|pass|gp):S"),
    ("qpdf", r"--encrypt {1,3}S"),
    ("nsupdate|dig ", r"(?<!\S)-y {1,3}(?:hmac-\w{1,12}:)?[\w.-]{1,100}:([\w+/=]{6,200})"),
    ("curl", r"(?<!\S)(?:-E|--cert|--proxy-cert)[ =]{1,2}[^\s:]{1,200}:([^\s\"']{1,200})"),
    ("hexkey:|macopt key:", r"(?:hexkey|macopt key):([^\s\"']{1,200})"),
    ("pass=|PASS=",
     r"(?:(?<=[,?&;])pass|(?<![A-Za-z0-9_])PASS)=(?!\d{1,3}(?:\W|$)|(?i:true|false)\b)([^\s,&;\"']{1,200}|\""
     r"[^\"\n]{1,200}\"|'[^'\n]{1,200}')"),
    ("pass=", r"\buser(?:name)?=[^\s,;&]{1,100}[ ,;&]{1,2}pass=([^\s,;&]{1,200})"),
    # invalid token 'hunter2'        not invalid token 'endoftext', nor invalid key 'model.0.weight' or 'layer12_k_proj'
    ("nvalid |NVALID |ad password|ad token|rong |xpired |nknown |evoked |ejected |ncorrect |nauthorized ",
     r"(?i)\b(?:invalid|bad|wrong|expired|unknown|revoked|rejected|incorrect|unauthorized) (?:(?:api|access|auth"
     r"|bearer|refresh|user) )?"
     r"(?:token|password|passphrase|(?:(?<=api )|(?<=access ))key|key(?!:? {0,2}[\"'`][a-z0-9_]*_)"
     r"|secret|credential)s?:? {0,2}[\"'`]((?="
     r"[^\"'`\s]{0,80}\d)(?![\d.]{1,12}[\"'`])[^\"'`\s./]{6,400})[\"'`]"),
)  # fmt: skip

_WEBHOOKS = (
    # https://api.telegram.org/bot123456:AA…/sendMessage
    ("api.telegram.org/", r"api\.telegram\.org/(?:file/)?bot([^/\s\"']{8,100})"),
    # https://acme.webhook.office.com/webhookb2/…@…/IncomingWebhook/0123…/…        https://outlook.office.com/webhook/…
    (".office.com/webhook|.office365.com/webhook", r"\.?office(?:365)?\.com/webhook(?:b2)?/([\w@/-]{8,400})"),
    # https://hooks.zapier.com/hooks/catch/1/abc        https://chat.example.com/hooks/abc123…: Mattermost, Rocket.Chat
    ("/hooks/", r"/hooks/(?:catch/)?((?=[\w/-]{0,80}\d)[\w/-]{12,200})"),
    # https://open.feishu.cn/open-apis/bot/v2/hook/…
    ("/bot/v2/hook/", r"/bot/v2/hook/([\w-]{8,100})"),
    # https://maker.ifttt.com/trigger/x/with/key/…        https://events.pagerduty.com/integration/…/enqueue
    ("/with/key/|/integration/", r"(?:/with/key|pagerduty\.com/integration)/([\w-]{8,100})"),
    # https://hc-ping.com/…: whoever has it may report
    ("hc-ping.com/", r"hc-ping\.com/([\w-]{12,80})"),
    # AKIAEXAMPLEEXAMPLE12 wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
    ("AKIA|ASIA", r"(?:AKIA|ASIA)[0-9A-Z]{12,20}[\s,:;|\"'/]{1,8}((?=[\w/+=]{0,80}\d)[\w/+=]{8,128})"),
)


def _options(hints: str, options: str) -> Shape:
    any_of = "|".join(map(re.escape, options.split()))
    return Shape(
        tuple(hints.split("|")), re.compile(rf"{_BEGIN}(?:{any_of})(?:=|\s{{1,3}}){_VALUE}"), options[0] == "-"
    )


def _place(hints: str, pattern: str) -> Shape:
    return Shape(tuple(hints.split("|")), re.compile(re.sub(r"(?<![\\\w])S(?!\w)", lambda _: _VALUE, pattern)))


OF_PROGRAMS = (*(_options(*row) for row in _OPTIONS), *(_place(*row) for row in _PLACES))
OF_ADDRESSES = tuple(_place(*row) for row in _WEBHOOKS)
