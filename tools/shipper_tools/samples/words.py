"""What the demo's services talk about. The first of a list is the most frequent where the order
matters."""

from __future__ import annotations

PATHS = (
    "/",
    "/products/{id}",
    "/search?q=schuhe",
    "/static/app.js",
    "/static/style.css",
    "/healthz",
    "/cart",
    "/products/{id}/reviews",
    "/api/v1/stock/{id}",
    "/images/{id}.webp",
    "/login",
    "/checkout",
    "/account/orders",
    "/search?q=%E9%9D%B4",
    "/search?q=gr%C3%B6%C3%9Fe+42",
    "/favicon.ico",
    "/robots.txt",
    "/sitemap.xml",
    "/blog/2026/{id}",
    "/wp-login.php",
    "/.env",
    "/admin/",
)

USER_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 Version/18.6 "
    "Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 "
    "Mobile Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/26.0 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "kube-probe/1.33",
    "curl/8.14.1",
    "python-requests/2.32.5",
    "-",
)

REFERERS = (
    "-",
    "https://shop.example.com/",
    "https://shop.example.com/products",
    "https://www.google.com/",
    "https://shop.example.com/größen",
    "https://news.example.org/bäckerei-des-jahres",
    "https://例え.example.jp/",
)

NAMES = (
    "Zoë Martin",
    "Jürgen Groß",
    "Anna Nowak",
    "José Álvarez",
    "佐藤 花子",
    "Олена Коваль",
    "Liam Smith",
    "Aylin Yılmaz",
)
USERS = ("zoe", "juergen", "anna", "jose", "liam", "aylin")
LANGUAGES = ("de", "en", "fr", "ja", "pl", "pt", "uk")


PAYMENT_EVENTS = (
    ("INFO", "c.e.payments.CaptureService", "captured {amount} for {order}"),
    (
        "INFO",
        "c.e.payments.AuthorizationService",
        "authorized {amount} for {order}, card holder {name}",
    ),
    ("DEBUG", "c.e.payments.fraud.RiskScorer", "score of {order}: low"),
    ("INFO", "c.e.payments.RefundService", "refunded {amount} for {order}"),
    ("WARN", "c.e.payments.gateway.AcquirerClient", "slow answer for {order}, retrying in 250 ms"),
    ("INFO", "c.e.payments.sepa.TransferJob", "Überweisung über {amount} für {order} eingereicht"),
)
PAYMENT_WEIGHTS = (40, 30, 18, 4, 3, 5)

EXCEPTIONS = (
    (
        "java.net.SocketTimeoutException: Read timed out",
        "java.net.SocketException: Connection reset",
    ),
    (
        "java.lang.IllegalStateException: already captured",
        "java.sql.SQLException: duplicate key value",
    ),
    (
        "com.example.payments.DeclinedException: Karte abgelehnt – Limit überschritten",
        "java.io.IOException: HTTP 402",
    ),
    (
        "java.lang.NullPointerException: holder is null",
        "java.util.NoSuchElementException: No value present",
    ),
)
FRAMES = (
    "com.example.payments.gateway.AcquirerClient.send",
    "com.example.payments.gateway.AcquirerClient.capture",
    "com.example.payments.CaptureService.capture",
    "com.example.payments.CaptureController.post",
    "java.base/jdk.internal.reflect.DirectMethodHandleAccessor.invoke",
    "java.base/java.lang.reflect.Method.invoke",
    "org.springframework.web.servlet.DispatcherServlet.doDispatch",
    "org.springframework.web.servlet.FrameworkServlet.processRequest",
    "jakarta.servlet.http.HttpServlet.service",
    "org.apache.catalina.core.ApplicationFilterChain.doFilter",
    "org.apache.catalina.core.StandardWrapperValve.invoke",
    "org.apache.coyote.http11.Http11Processor.service",
    "org.apache.tomcat.util.net.SocketProcessorBase.run",
    "java.base/java.lang.Thread.run",
)

SYSTEM_EVENTS = (
    "systemd[1]: Started session-{n}.scope - Session {n} of user deploy.",
    "sshd[{pid}]: Failed password for invalid user admin from {ip} port {port} ssh2",
    "CRON[{pid}]: (root) CMD (/usr/lib/sysstat/debian-sa1 1 1)",
    "kernel: [UFW BLOCK] IN=eth0 OUT= SRC={ip} LEN=40 TTL=24{n} PROTO=TCP SPT={port} DPT=23 "
    "WINDOW=1024 SYN",
    "sshd[{pid}]: Accepted publickey for deploy from {ip} port {port} ssh2: ED25519 SHA256:q1w2e3",
    "systemd[1]: logrotate.service: Deactivated successfully.",
    "dhclient[{pid}]: DHCPACK of 10.0.0.{n} from 10.0.0.1",
    'node_exporter[{pid}]: level=error msg="collector failed" name=hwmon err="no such file"',
    "kernel: Out of memory: Killed process {pid} (java) total-vm:412{n}096kB, anon-rss:209{n}152kB",
)

QUERIES = (
    "schuhe",
    "größe 42",
    "running shoes",
    "winterjacke",
    "靴",
    "hemd weiß",
    "socks",
    "crème solaire",
    "żółta sukienka",
    "rucksack 30l",
    "черевики",
    "gürtel",
    "mütze",
    "t-shirt",
    "sandalen damen",
)
