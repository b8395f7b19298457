"""AWS's own description of Bedrock, held against what is sent and answered; and its signatures."""

import base64
import json
from functools import cache
from struct import pack
from typing import Any
from urllib.parse import unquote
from zlib import crc32

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.validate import ParamValidator

from fakes.http_server import Seen


@cache
def operation(name: str) -> OperationModel:
    description = Loader().load_service_model("bedrock-runtime", "service-2")
    return ServiceModel(description, "bedrock-runtime").operation_model(name)


def check_request(seen: Seen) -> str:
    """Check a request against the service model, and return the model that it asks."""
    _, _, path = seen.path.partition("/model/")
    model, _, last = path.partition("/")
    assert seen.method == "POST"
    assert seen.headers["Content-Type"] == "application/json"
    sent = {"modelId": unquote(model), **with_bytes(seen.json)}
    asked = {"converse": "Converse", "converse-stream": "ConverseStream"}[last]
    report = ParamValidator().validate(sent, operation(asked).input_shape)
    assert not report.has_errors(), report.generate_report()
    return str(sent["modelId"])


def check_answer(answer: Any) -> None:
    report = ParamValidator().validate(answer, operation("Converse").output_shape)
    assert not report.has_errors(), report.generate_report()


def check_event(event: Any) -> None:
    """Check an event of a stream, which has one key: its type."""
    shape = operation("ConverseStream").output_shape.members["stream"]
    report = ParamValidator().validate(event, shape)
    assert not report.has_errors(), report.generate_report()


def with_bytes(value: Any) -> Any:
    """The value with `bytes` decoded, which are base64 in JSON."""
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64decode(each) if key == "bytes" else with_bytes(each)
        for key, each in value.items()
    }


def is_signed_by(seen: Seen, access_key: str, secret: str, region: str) -> bool:
    """Return True if the request as it arrived has the signature of this key."""
    authorization = seen.headers["Authorization"]
    fields = dict(
        part.split("=", 1) for part in authorization.partition(" ")[2].replace(" ", "").split(",")
    )
    names = fields["SignedHeaders"].split(";")
    headers = {name: seen.headers[name] for name in names}
    url = seen.path if "://" in seen.path else f"http://{seen.headers['Host']}{seen.path}"
    request = AWSRequest(seen.method, url, headers, seen.body)
    request.context["timestamp"] = seen.headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials(access_key, secret), "bedrock", region)
    string_to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    day = seen.headers["X-Amz-Date"][:8]
    return bool(
        {"content-type", "host", "x-amz-date"} <= set(names)
        and fields["Credential"] == f"{access_key}/{day}/{region}/bedrock/aws4_request"
        and fields["Signature"] == auth.signature(string_to_sign, request)
    )


def frame(headers: dict[str, str], payload: Any) -> bytes:
    """An event of AWS's binary framing, by its published layout."""
    head = b""
    for name, value in headers.items():
        head += bytes([len(name)]) + name.encode() + b"\x07"
        head += pack("!H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = pack("!II", len(head) + len(body) + 16, len(head))
    message = prelude + pack("!I", crc32(prelude)) + head + body
    return message + pack("!I", crc32(message))


def event_frame(kind: str, payload: Any) -> bytes:
    """An event of a stream, which the service model knows."""
    check_event({kind: payload})
    return frame({":message-type": "event", ":event-type": kind}, payload)


def exception_frame(kind: str, message: str) -> bytes:
    """An exception that ends a stream."""
    check_event({kind: {"message": message}})
    headers = {":message-type": "exception", ":exception-type": kind}
    return frame(headers, {"message": message})
