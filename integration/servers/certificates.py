"""The certificate of the test servers, made once for all of them."""

import shutil

from processes import Failure, run
from registry import cache_dir, locked


def tls_files():
    """A certificate authority and the certificate it gave to `localhost`, made once.

    The certificate names `localhost` and no address, so that `sslmode=verify-full` passes there and fails on 127.0.0.1.
    """
    directory = cache_dir() / "tls"
    with locked("tls"):
        if (directory / "ready").exists():
            return directory
        if not shutil.which("openssl"):
            raise Failure("needs openssl to make the servers' certificate; install it (apt-get install openssl)")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

        def openssl(*argv):
            run(["openssl", *argv], what="making the servers' certificate")

        def path(name):
            return str(directory / name)

        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        authority = ["-x509", "-days", "3650", "-subj", "/CN=calve test authority"]
        openssl("req", *authority, *curve, "-keyout", path("ca.key"), "-out", path("ca.crt"))
        openssl(
            "req", "-new", "-subj", "/CN=localhost", *curve, "-keyout", path("server.key"), "-out", path("server.csr")
        )
        (directory / "server.ext").write_text(
            "subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n",
            encoding="utf-8",
        )
        sign = ["-CA", path("ca.crt"), "-CAkey", path("ca.key"), "-CAcreateserial", "-days", "3650"]
        openssl(
            "x509", "-req", "-in", path("server.csr"), *sign, "-extfile", path("server.ext"), "-out", path("server.crt")
        )
        (directory / "ready").touch()
    return directory
