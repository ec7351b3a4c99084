"""The API does what its document says: random requests never break it, and nothing undocumented comes back.

schemathesis makes the requests from the document. SQL text is valid by the schema and may still be refused, so valid
requests need not be accepted. `make nightly` tries many times as many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import clinic_with, running

from hush.server import table
from hush.server.auth.people import People
from hush.server.rate_limits import RateLimits
from hush.server.routes import document
from hush.server.settings import ServiceSettings

_EXAMPLES = int(os.environ.get("HUSH_EXAMPLES", "12"))
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# what is longer than it may be is often also larger than a body may be, which is a refusal as good as any
_REFUSED = ["400", "401", "403", "404", "406", "409", "413", "415", "422", "429"]
_CONFIG = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": _REFUSED}}})
schema = schemathesis.openapi.from_dict(document(table()), config=_CONFIG)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    folder: Path = tmp_path_factory.mktemp("clinic")
    policy = clinic_with(folder, pa.table({"age": list(range(50))}), bounds={"age": (0, 100)}, budget="1000")
    people = People(folder / "hush.people")
    token = people.make_token("me", scopes=["read", "ask", "own"])[1]
    people.close()
    chosen = ServiceSettings(policy=str(policy), people=str(folder / "hush.people"), tick=0)
    with pytest.MonkeyPatch.context() as patch, running(chosen) as address:
        patch.setattr(RateLimits, "visit", lambda *_, **__: 0.0)  # rates are tested elsewhere
        yield address, {"authorization": f"Bearer {token}"}


@schema.parametrize()
@settings(max_examples=_EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
def test_random_requests(case: schemathesis.Case, service: tuple[str, dict[str, str]]) -> None:
    address, headers = service
    response = case.call(base_url=address, headers=headers, timeout=15)
    case.validate_response(response, checks=_CHECKS)
    assert response.status_code < 300 or str(response.status_code) in {*_REFUSED, "402", "405", "408"}
