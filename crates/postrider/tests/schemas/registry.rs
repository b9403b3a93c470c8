//! A real registry, in two versions, and the deserializers of Confluent's Python client.

use std::path::Path;

use postrider::Code;
use postrider::encode::Encoder;
use postrider::encode::schema::{
    Format, RegistryConfig, SchemaCheck, SchemaConfig, SchemaEncoder, SchemaEnvelope,
};
use postrider_testkit::servers::apicurio::{Apicurio, Version, read_with_python};
use serde_json::{Value, json};

use super::files::{AVRO, Files, encoded, hex};

/// Decodes messages with the deserializers that consumers use, which look the schemas up in the registry.
const READER: &str = include_str!("consumer.py");

async fn registered(
    files: &Files,
    registry: &Apicurio,
    format: Format,
    envelope: SchemaEnvelope,
) -> SchemaEncoder {
    let mut config = files.config(format);
    config.envelope = envelope;
    let mut of_registry = RegistryConfig::new(registry.url());
    of_registry.register = true;
    config.registry = Some(of_registry);
    let encoder = SchemaEncoder::open(&config).unwrap();
    encoder.prepare().await.unwrap();
    encoder
}

#[tokio::test]
async fn consumers_read_every_format_through_the_registry() {
    for version in Version::ALL {
        let Some(registry) = Apicurio::private(version) else { return };
        let files = Files::new();
        let mut arguments = vec![registry.url(), files.folder().display().to_string()];
        for format in [Format::Avro, Format::Protobuf, Format::JsonSchema] {
            for envelope in [SchemaEnvelope::None, SchemaEnvelope::ActionEvent] {
                let encoder = registered(&files, &registry, format, envelope).await;
                arguments.push(hex(&encoded(&encoder)));
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Some(read) = read_with_python(READER, &arguments).unwrap() else { return };
        let read: Vec<Value> = read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let avro = json!({
            "id": "o-1 é", "total": "77.10", "placed": "2026-11-15 21:35:00.000001+00:00",
            "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": -2}],
            "labels": {"a": "2", "z": "1"}, "state": "PAID", "note": null, "channel": "web",
        });
        let protobuf = json!({
            "id": "o-1 é", "total_cents": "7710", "placed": "2026-11-15T21:35:00.000001Z",
            "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": -2}],
            "labels": {"a": "2", "z": "1"}, "state": "PAID",
        });
        let whole: Value = serde_json::from_str(super::files::PAYLOAD).unwrap();
        assert_eq!(read[0], avro, "{version:?}");
        assert_eq!(
            (&read[1]["payload"], &read[1]["model_id"], &read[1]["delivered"]),
            (&avro, &json!("o-1"), &json!(false))
        );
        assert_eq!(read[1]["action_params"], r#"{"cart":9}"#);
        assert_eq!(read[1]["started_date"], "2025-11-15 21:34:59.900000+00:00");
        assert_eq!(read[2], protobuf, "{version:?}");
        assert_eq!((&read[3]["payload"], &read[3]["action_name"]), (&protobuf, &json!("PlaceOrder")));
        assert_eq!(read[4], whole, "{version:?}");
        assert_eq!((&read[5]["payload"], &read[5]["event_type"]), (&whole, &json!("order.placed")));
    }
}

#[tokio::test]
async fn a_registry_over_tls_is_used_only_with_a_certificate_of_a_trusted_authority() {
    for version in Version::ALL {
        let Some(registry) = Apicurio::private_with_tls(version) else { return };
        let files = Files::new();
        let prepared = async |url: String, ca_file: Option<&Path>| {
            let mut config = files.config(Format::Avro);
            let mut of_registry = RegistryConfig::new(url);
            of_registry.register = true;
            of_registry.ca_file = ca_file.map(Path::to_owned);
            config.registry = Some(of_registry);
            let encoder = SchemaEncoder::open(&config).unwrap();
            encoder.prepare().await.map(|()| encoded(&encoder))
        };
        let url = registry.tls_url().unwrap();
        for ca_file in [None, registry.other_authority()] {
            let error = prepared(url.clone(), ca_file).await.unwrap_err();
            assert_eq!(error.code(), Code::SchemaUnavailable, "{version:?}: {}", error.report());
            assert!(error.report().contains("certificate"), "{version:?}: {}", error.report());
        }
        let message = prepared(url.clone(), registry.authority()).await.unwrap();
        assert_eq!(message[..5], [0, 0, 0, 0, 1], "{version:?}");
        // A registry that is asked without TLS on its port for TLS.
        let plain = url.replace("https://", "http://");
        assert_eq!(prepared(plain, None).await.unwrap_err().code(), Code::SchemaUnavailable, "{version:?}");
    }
}

#[tokio::test]
async fn a_real_registry_refuses_with_its_words() {
    for version in Version::ALL {
        let Some(registry) = Apicurio::private(version) else { return };
        let files = Files::new();
        let mut config = files.config(Format::Avro);
        let mut of_registry = RegistryConfig::new(registry.url());
        config.registry = Some(of_registry.clone());
        let open = |config: &SchemaConfig| SchemaEncoder::open(config).unwrap();
        let error = open(&config).prepare().await.unwrap_err();
        assert_eq!(error.code(), Code::SchemaRefused, "{version:?}: {}", error.report());
        let checked = open(&config).check().await.unwrap();
        // 3.3.3 calls a schema of a subject that it does not know compatible.
        let known = &checked[0].registry;
        assert!(
            matches!(known, Some(SchemaCheck::NewSubject | SchemaCheck::Compatible)),
            "{version:?}: {checked:?}"
        );

        of_registry.register = true;
        config.registry = Some(of_registry.clone());
        open(&config).prepare().await.unwrap();
        let checked = open(&config).check().await.unwrap();
        assert!(matches!(checked[0].registry, Some(SchemaCheck::Known { version: 1, .. })), "{checked:?}");
        // The same schema with other whitespace and docs gets the same id.
        std::fs::write(files.path("order.avsc"), AVRO.replace(",\n", ",\n\n  ")).unwrap();
        open(&config).prepare().await.unwrap();
        assert!(matches!(open(&config).check().await.unwrap()[0].registry, Some(SchemaCheck::Known { .. })));

        backward(&registry);
        let incompatible = AVRO.replace(r#"{"name":"id","type":"string"}"#, r#"{"name":"id","type":"int"}"#);
        std::fs::write(files.path("order.avsc"), incompatible).unwrap();
        let checked = open(&config).check().await.unwrap();
        assert!(
            matches!(checked[0].registry, Some(SchemaCheck::Incompatible(_))),
            "{version:?}: {checked:?}"
        );
        let error = open(&config).prepare().await.unwrap_err();
        assert_eq!(error.code(), Code::SchemaRefused, "{version:?}: {}", error.report());
        assert!(error.message().contains("(409)"), "{version:?}: {}", error.report());

        let compatible = AVRO
            .replace(r#"{"name":"channel""#, r#"{"name":"more","type":"int","default":0},{"name":"channel""#);
        std::fs::write(files.path("order.avsc"), compatible).unwrap();
        assert_eq!(
            open(&config).check().await.unwrap()[0].registry,
            Some(SchemaCheck::Compatible),
            "{version:?}"
        );
        open(&config).prepare().await.unwrap();
        let checked = open(&config).check().await.unwrap();
        assert!(matches!(checked[0].registry, Some(SchemaCheck::Known { version: 2, .. })), "{checked:?}");
    }
}

/// Has the registry check that new schemas can read what was written with earlier ones.
fn backward(registry: &Apicurio) {
    let script = "import sys, json, urllib.request as u\n\
        request = u.Request(sys.argv[1] + '/config', method='PUT', data=json.dumps({'compatibility': 'BACKWARD'}).encode(), \
        headers={'Content-Type': 'application/json'})\nu.urlopen(request)";
    read_with_python(script, &[&registry.url()]).unwrap();
}
