"""Reads envelopes `ActionEvent` without Postrider's code, and prints each as a line of JSON.

Arguments: avro or protobuf, the type of the events, the folder of the schema files, and messages in hexadecimal.
"""

import datetime
import io
import json
import sys
import tempfile

kind, event_type, folder = sys.argv[1:4]
messages = [bytes.fromhex(text) for text in sys.argv[4:]]
FIELDS = ["id", "namespace", "action_id", "action_name", "action_params", "started_date", "completion_date",
          "model_id", "model_type", "event_type", "payload", "event_date", "delivered"]


def time(value):
    """As Debezium writes it: without zeros at the end."""
    text = value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").rstrip(".") + "Z"


if kind == "avro":
    import fastavro
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    micros = {"type": "long", "logicalType": "timestamp-micros"}
    text = ["null", "string"]
    types = ["string"] * 5 + [micros, micros, text, text, text, ["null", "bytes"], micros, "boolean"]
    envelope = {
        "type": "record", "name": "io.ekbatan.events.streaming.actionevent.avro.ActionEvent",
        "fields": [{"name": name, "type": of} for name, of in zip(FIELDS, types)],
    }
    with open(f"{folder}/{event_type}.avsc") as file:
        payload = json.load(file)

    def single_object(message, schema):
        expected = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
        assert message[:10] == b"\xc3\x01" + expected, message[:10]
        rest = io.BytesIO(message[10:])
        value = fastavro.schemaless_reader(rest, fastavro.parse_schema(schema))
        assert not rest.read()
        return value

    for message in messages:
        value = single_object(message, envelope)
        value["payload"] = single_object(value["payload"], payload)
        for name in ("started_date", "completion_date", "event_date"):
            value[name] = time(value[name])
        print(json.dumps(value))
else:
    import grpc_tools
    from grpc_tools import protoc

    out = tempfile.mkdtemp()
    stamp = "google.protobuf.Timestamp"
    types = ["string"] * 5 + [stamp, stamp] + ["optional string"] * 3 + ["optional bytes", stamp, "bool"]
    body = " ".join(f"{of} {name} = {number};" for number, (of, name) in enumerate(zip(types, FIELDS), 1))
    with open(f"{out}/envelope.proto", "w") as file:
        file.write('syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Envelope { %s }' % body)
    includes = [f"-I{folder}", f"-I{out}", f"-I{grpc_tools.__path__[0]}/_proto", f"--python_out={out}"]
    assert protoc.main(["protoc", *includes, f"{event_type}.proto", "envelope.proto"]) == 0
    sys.path.insert(0, out)
    import envelope_pb2

    classes = getattr(__import__(f"{event_type}_pb2"), event_type)
    for message in messages:
        read = envelope_pb2.Envelope.FromString(message)
        # Protobuf's own writer gives the same bytes: no field is unknown, and the order is that of the numbers.
        assert read.SerializeToString(deterministic=True) == message
        value = {name: getattr(read, name) for name in FIELDS}
        payload = classes.FromString(value["payload"])
        value["payload"] = {"number": payload.number, "name": payload.name}
        for name in ("started_date", "completion_date", "event_date"):
            value[name] = time(getattr(read, name).ToDatetime(tzinfo=datetime.timezone.utc))
        print(json.dumps(value))
