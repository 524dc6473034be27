"""Requests made up from the API document: every answer is one that the document promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.client import JSON, ROOT, TEXT, Client
from tests.support.server import Servers
from tests.support.tree import ROOT as PROJECT

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
EXAMPLES = 60
SEED = 20_240_917


def prepare(client: Client) -> None:
    """Make the streams that the hooks send requests to."""
    client.put("text", b"some text", TEXT)
    client.put("json", b'[1,{"a":2}]', JSON)
    client.put("bytes", b"\x00\xff")
    client.put("closed", b"end", {**TEXT, "Stream-Closed": "true"})
    client.put("fork", headers={"Stream-Forked-From": ROOT + "json"})
    client.put("brief", headers={"Stream-TTL": "1"})


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_every_answer_is_one_that_the_document_promises(
    servers: Servers, tmp_path: Path, mode: str
) -> None:
    server = servers.start("--long-poll-ms", "100", "--sse-ms", "100")
    client = Client(server.port)
    prepare(client)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
        *("--checks", ",".join(CHECKS), "--mode", mode, "--phases", "examples,coverage,fuzzing"),
        *("--max-examples", str(EXAMPLES), "--seed", str(SEED), "--generation-database", "none"),
        *("--request-timeout", "10", "--continue-on-failure", "--no-color"),
    ]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.support.schema_hooks",
        "PYTHONPATH": os.pathsep.join((str(PROJECT), os.environ.get("PYTHONPATH", ""))),
    }
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2000:]
    assert "generated" in ran.stdout
    assert client.ask("GET", "/healthz").status == 200
    assert "Traceback" not in server.output()


def test_the_document_is_valid_openapi_and_knows_all_that_is_served(servers: Servers) -> None:
    client = Client(servers.start().port)
    document = client.ask("GET", "/openapi.json").json
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        # Whatever the route, the edge may refuse the request.
        assert {"400", "408", "413", "414", "415", "431", "503"} <= set(operation["responses"])
