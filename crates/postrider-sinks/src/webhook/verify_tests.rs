use super::*;

const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD: &str = "whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xkIG9sZA==";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SENT: i64 = 1_614_265_330;

fn verify(secrets: &[&str], at: i64, changed: &[(&str, &str)], body: &[u8]) -> Result<String, Unverified> {
    let sent = SENT.to_string();
    let headers = [(WEBHOOK_ID, ID), (WEBHOOK_TIMESTAMP, &sent), (WEBHOOK_SIGNATURE, SIGNATURE)];
    let header = |name: &str| {
        let mut all = changed.iter().chain(&headers);
        all.find(|(known, _)| *known == name).map(|(_, value)| *value)
    };
    let now = Timestamp::from_micros(at * 1_000_000);
    Verifier::new(secrets).unwrap().verify_at(now, header, body).map(str::to_owned)
}

#[test]
fn the_request_of_the_specification_is_verified() {
    assert_eq!(verify(&[NEW], SENT, &[], BODY).as_deref(), Ok(ID));
}

#[test]
fn any_matching_key_and_signature_is_accepted() {
    assert_eq!(verify(&[OLD, NEW], SENT, &[], BODY).as_deref(), Ok(ID));
    let several = format!("v1a,c29tZXRoaW5n v1,bm9wZQ== {SIGNATURE}");
    assert_eq!(verify(&[NEW], SENT, &[(WEBHOOK_SIGNATURE, &several)], BODY).as_deref(), Ok(ID));
}

#[test]
fn a_change_of_one_byte_anywhere_is_detected() {
    for changed in [(WEBHOOK_ID, "msg_p5jXN8AQM9LWM0D4loKWxJel"), (WEBHOOK_TIMESTAMP, "1614265331")] {
        assert_eq!(verify(&[NEW], SENT, &[changed], BODY), Err(Unverified::NotSigned), "{changed:?}");
    }
    assert_eq!(verify(&[NEW], SENT, &[], br#"{"test": 2432232315}"#), Err(Unverified::NotSigned));
    assert_eq!(verify(&[OLD], SENT, &[], BODY), Err(Unverified::NotSigned));
    assert_eq!(verify(&[], SENT, &[], BODY), Err(Unverified::NotSigned));
}

#[test]
fn only_complete_signatures_of_version_1_count() {
    let bare = SIGNATURE.trim_start_matches("v1,");
    let (other, cut) = (format!("v2,{bare}"), SIGNATURE.replace("OE=", "O"));
    for bad in [bare, &other, &cut, "v1,", "v1", "v1,*"] {
        let found = verify(&[NEW], SENT, &[(WEBHOOK_SIGNATURE, bad)], BODY);
        assert_eq!(found, Err(Unverified::NotSigned), "{bad}");
    }
}

#[test]
fn a_request_older_or_newer_than_the_tolerance_is_refused() {
    assert!(verify(&[NEW], SENT + 300, &[], BODY).is_ok());
    assert!(verify(&[NEW], SENT - 300, &[], BODY).is_ok());
    assert_eq!(verify(&[NEW], SENT + 301, &[], BODY), Err(Unverified::TooOld));
    assert_eq!(verify(&[NEW], SENT - 301, &[], BODY), Err(Unverified::TooNew));
}

#[test]
fn a_missing_or_invalid_header_is_named() {
    for name in [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE] {
        assert_eq!(verify(&[NEW], SENT, &[(name, "")], BODY), Err(Unverified::Missing(name)));
    }
    for bad in ["now", "1.5", "99999999999999999999", "9223372036854775807"] {
        let found = verify(&[NEW], SENT, &[(WEBHOOK_TIMESTAMP, bad)], BODY);
        assert_eq!(found, Err(Unverified::TimestampInvalid), "{bad}");
    }
}

#[test]
fn a_receiver_gets_the_signed_id_and_the_trace() {
    let (key, id) = (Key::parse(NEW).unwrap(), "01980b7c-5a00-7000-8000-000000000001");
    let seconds = SystemClock::new().now().wall.as_micros() / 1_000_000;
    let now = seconds.to_string();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let receive = |id: &str, signature: &str| {
        let headers = [
            (WEBHOOK_ID, id),
            (WEBHOOK_TIMESTAMP, now.as_str()),
            (WEBHOOK_SIGNATURE, signature),
            ("traceparent", trace),
            // Not covered by the signature, and not asked for.
            ("postrider-id", "01980b7c-5a00-7000-8000-00000000ffff"),
        ];
        let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        Verifier::new([NEW]).unwrap().receive(header, BODY)
    };
    let incoming = receive(id, &key.sign(id, seconds, BODY)).unwrap();
    assert_eq!((incoming.event_id.to_string().as_str(), incoming.trace.unwrap().traceparent()), (id, trace));
    assert_eq!(receive("msg_1", &key.sign("msg_1", seconds, BODY)), Err(Unverified::IdInvalid));
    assert_eq!(receive(id, &key.sign("another", seconds, BODY)), Err(Unverified::NotSigned));
}
