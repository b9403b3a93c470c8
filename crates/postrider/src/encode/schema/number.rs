//! Numbers, times and bytes of a payload, exactly as a schema wants them: nothing is rounded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::json::{Document, Kind, Value};
use super::misfit::Misfit;

pub(super) type Fit<T> = Result<T, Box<Misfit>>;

/// The whole value, which must be an object.
pub(super) fn object<'a>(document: &'a Document<'_>) -> Fit<Value<'a>> {
    let root = document.root();
    match root.kind() {
        Kind::Object => Ok(root),
        kind => Err(Misfit::new("a JSON object", kind.words())),
    }
}

/// A decimal number as written: digits without leading zeros, and the power of ten of the last one.
struct Decimal<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
            // An exponent that no integer holds is far outside every limit.
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (digits, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (!whole.is_empty() && are_digits(whole) && are_digits(fraction)).then_some(Self {
            is_negative,
            whole,
            fraction,
            exponent,
        })
    }

    /// The digits of the number times ten to the power of `scale`. `Err(true)`: it would have to be rounded. `Err(false)`: it
    /// has more than `digits_max` digits.
    fn scaled(&self, scale: i64, digits_max: usize) -> Result<String, bool> {
        let digits = [self.whole, self.fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(String::new());
        }
        let significant = digits.trim_end_matches('0');
        let zeros = i64::try_from(digits.len() - significant.len()).unwrap_or(i64::MAX);
        let fraction = i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
        // The power of ten that the significant digits are multiplied with.
        let power = self.exponent.saturating_sub(fraction).saturating_add(zeros).saturating_add(scale);
        let added = usize::try_from(power).map_err(|_| true)?;
        match significant.len().saturating_add(added) <= digits_max {
            true => Ok(format!("{significant}{}", "0".repeat(added))),
            false => Err(false),
        }
    }
}

fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    Some(if text.starts_with('-') { -size } else { size })
}

/// A whole number in a range. `texts`: also as a text, as JSON of Protobuf writes 64 bits.
pub(super) fn integer(value: Value<'_>, wanted: &str, min: i128, max: i128, texts: bool) -> Fit<i128> {
    let text = match value.kind() {
        Kind::Number => value.raw().into(),
        Kind::Text if texts => value.text(),
        kind => return Err(Misfit::new(wanted, kind.words())),
    };
    let misfit = |found: &str| Misfit::new(wanted, found);
    let plain = text.parse::<i64>().ok().filter(|_| !text.starts_with('+'));
    let number = match plain {
        Some(number) => i128::from(number),
        None => {
            let decimal = Decimal::parse(&text).ok_or_else(|| misfit("a text that is no number"))?;
            let digits = decimal.scaled(0, 38).map_err(|is_fraction| match is_fraction {
                true => misfit("a number with a fraction"),
                false => misfit("a number out of range"),
            })?;
            let size: i128 = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i128::MAX) };
            if decimal.is_negative { -size } else { size }
        }
    };
    if (min..=max).contains(&number) { Ok(number) } else { Err(misfit("a number out of range")) }
}

/// The nearest double; a whole number must be exact.
pub(super) fn double(value: Value<'_>, wanted: &str, names: bool) -> Fit<f64> {
    let text = match value.kind() {
        Kind::Number => value.raw().into(),
        Kind::Text if names => value.text(),
        kind => return Err(Misfit::new(wanted, kind.words())),
    };
    match (&*text, value.kind()) {
        ("NaN", Kind::Text) => return Ok(f64::NAN),
        ("Infinity", Kind::Text) => return Ok(f64::INFINITY),
        ("-Infinity", Kind::Text) => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    let is_number = Decimal::parse(&text).is_some();
    let number: f64 = text
        .parse()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(|| Misfit::new(wanted, "a text that is no number"))?;
    if number.is_infinite() {
        return Err(Misfit::new(wanted, "a number out of range"));
    }
    if is_rounded(&text, number, 53) {
        return Err(Misfit::new(wanted, "a whole number that would be rounded"));
    }
    Ok(number)
}

/// As [`double`], with 32 bits.
pub(super) fn float(value: Value<'_>, wanted: &str, names: bool) -> Fit<f32> {
    let wide = double(value, wanted, names)?;
    let text = value.text();
    let text = if value.kind() == Kind::Number { value.raw() } else { &text };
    #[expect(clippy::cast_possible_truncation, reason = "the nearest float is what the schema asks for")]
    let narrow = text.parse::<f32>().unwrap_or(wide as f32);
    if narrow.is_infinite() && wide.is_finite() {
        return Err(Misfit::new(wanted, "a number out of range"));
    }
    match is_rounded(text, f64::from(narrow), 24) {
        true => Err(Misfit::new(wanted, "a whole number that would be rounded")),
        false => Ok(narrow),
    }
}

/// Whether a whole number without exponent is not exact with this many bits.
fn is_rounded(text: &str, number: f64, bits: i32) -> bool {
    let is_whole = !text.contains(['.', 'e', 'E', 'N', 'I']);
    // Below this every whole number is exact.
    is_whole
        && number.abs() >= 2_f64.powi(bits)
        && text.trim_start_matches('-').trim_start_matches('0') != format!("{:.0}", number.abs())
}

/// The unscaled value of a decimal as two's complement, big-endian, with the fewest bytes.
pub(super) fn decimal(value: Value<'_>, wanted: &str, precision: usize, scale: usize) -> Fit<Vec<u8>> {
    let text = match value.kind() {
        Kind::Number => value.raw().into(),
        Kind::Text => value.text(),
        kind => return Err(Misfit::new(wanted, kind.words())),
    };
    let number =
        Decimal::parse(&text).ok_or_else(|| Misfit::new(wanted, "a text that is no decimal number"))?;
    let scale = i64::try_from(scale).unwrap_or(i64::MAX);
    let digits = number.scaled(scale, precision).map_err(|is_rounded| {
        let found = if is_rounded { "a number with more decimals" } else { "a number with more digits" };
        Misfit::new(wanted, found)
    })?;
    Ok(twos_complement(&digits, number.is_negative))
}

fn twos_complement(digits: &str, is_negative: bool) -> Vec<u8> {
    // Little-endian magnitude, nine digits at a time.
    let mut bytes: Vec<u8> = Vec::with_capacity(digits.len() / 2 + 2);
    let first = digits.len() % 9;
    let chunks = std::iter::once(&digits[..first])
        .chain((first..digits.len()).step_by(9).map(|at| &digits[at..at + 9]))
        .filter(|chunk| !chunk.is_empty());
    for chunk in chunks {
        let factor = 10_u64.pow(u32::try_from(chunk.len()).unwrap_or(9));
        let mut carry: u64 = chunk.parse().unwrap_or(0);
        for byte in &mut bytes {
            carry += u64::from(*byte) * factor;
            *byte = carry.to_le_bytes()[0];
            carry >>= 8;
        }
        while carry > 0 {
            bytes.push(carry.to_le_bytes()[0]);
            carry >>= 8;
        }
    }
    // A byte for the sign.
    bytes.push(0);
    if is_negative {
        let mut carry = true;
        for byte in &mut bytes {
            let (sum, overflow) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (sum, overflow);
        }
    }
    bytes.reverse();
    let is_sign =
        |first: u8, second: u8| first == 0 && second & 0x80 == 0 || first == 0xff && second & 0x80 != 0;
    let surplus = bytes.windows(2).take_while(|pair| is_sign(pair[0], pair[1])).count();
    bytes.drain(..surplus);
    bytes
}

/// Bytes, as base64 with padding.
pub(super) fn base64(value: Value<'_>, wanted: &str) -> Fit<Vec<u8>> {
    if value.kind() != Kind::Text {
        return Err(Misfit::new(wanted, value.kind().words()));
    }
    STANDARD.decode(&*value.text()).map_err(|_| Misfit::new(wanted, "a text that is not base64"))
}

/// A point in time as nanoseconds since 1970, from ISO 8601 with an offset.
pub(super) fn instant_nanos(value: Value<'_>, wanted: &str) -> Fit<i128> {
    let text = text_of(value, wanted)?;
    let instant: Result<jiff::Timestamp, _> = text.parse();
    instant.map(jiff::Timestamp::as_nanosecond).map_err(|_| {
        Misfit::new(wanted, "a text that is no time with an offset, such as 2026-01-31T12:00:00Z")
    })
}

/// A local time as nanoseconds since 1970-01-01T00:00:00, from ISO 8601 without an offset.
pub(super) fn local_nanos(value: Value<'_>, wanted: &str) -> Fit<i128> {
    let text = text_of(value, wanted)?;
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    let local =
        text.parse::<jiff::civil::DateTime>().ok().filter(|_| !time.contains(['Z', 'z', '+', '-', '[']));
    let instant = local.and_then(|local| local.to_zoned(jiff::tz::TimeZone::UTC).ok());
    instant.map(|instant| instant.timestamp().as_nanosecond()).ok_or_else(|| {
        Misfit::new(wanted, "a text that is no time without offset, such as 2026-01-31T12:00:00")
    })
}

/// The days since 1970-01-01 of a date.
pub(super) fn days(value: Value<'_>, wanted: &str) -> Fit<i128> {
    const DAY_NANOS: i128 = 86_400_000_000_000;
    let text = text_of(value, wanted)?;
    let date = text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() == 10);
    let instant = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    instant
        .map(|instant| instant.timestamp().as_nanosecond().div_euclid(DAY_NANOS))
        .ok_or_else(|| Misfit::new(wanted, "a text that is no date such as 2026-01-31"))
}

/// The nanoseconds since midnight of a time.
pub(super) fn time_nanos(value: Value<'_>, wanted: &str) -> Fit<i128> {
    let text = text_of(value, wanted)?;
    let time = text
        .parse::<jiff::civil::Time>()
        .ok()
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')));
    let time = time.ok_or_else(|| Misfit::new(wanted, "a text that is no time such as 12:00:00"))?;
    let seconds = i128::from(time.hour()) * 3600 + i128::from(time.minute()) * 60 + i128::from(time.second());
    Ok(seconds * 1_000_000_000 + i128::from(time.subsec_nanosecond()))
}

fn text_of<'d>(value: Value<'d>, wanted: &str) -> Fit<std::borrow::Cow<'d, str>> {
    match value.kind() {
        Kind::Text => Ok(value.text()),
        kind => Err(Misfit::new(wanted, kind.words())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Document;
    use super::*;

    fn with<T>(json: &str, read: impl Fn(Value<'_>) -> Fit<T>) -> Result<T, String> {
        let document = Document::parse(json.as_bytes()).unwrap();
        read(document.root()).map_err(|misfit| misfit.to_string())
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        let unscaled = |json: &str| {
            with(json, |value| decimal(value, "a decimal", 20, 2)).map(|bytes| {
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
                bytes.iter().fold(sign, |number: i128, byte| number << 8 | i128::from(*byte))
            })
        };
        for (json, number) in [
            ("77.10", 7710),
            ("\"77.1\"", 7710),
            ("-1.28", -128),
            ("1.28", 128),
            ("-0", 0),
            ("0e999999999999999999999", 0),
            ("1e3", 100_000),
            ("1.5e1", 1500),
            ("1200e-3", 120),
            ("-327.68", -32768),
            ("999999999999999999.99", 99_999_999_999_999_999_999),
            ("-999999999999999999.99", -99_999_999_999_999_999_999),
        ] {
            assert_eq!(unscaled(json), Ok(number), "{json}");
        }
        for json in [
            "0.001",
            "1e999999999999999999999",
            "1000000000000000000",
            "\"1.\"",
            "\"\"",
            "\"0x1\"",
            "true",
            "\" 1\"",
            "\"1e\"",
            "1e-99999999999999999999",
        ] {
            assert!(unscaled(json).is_err(), "{json}");
        }
        assert_eq!(with("77.10", |value| decimal(value, "", 5, 2)), Ok(vec![0x1e, 0x1e]));
        assert_eq!(with("-0.01", |value| decimal(value, "", 5, 2)), Ok(vec![0xff]));
        assert_eq!(with("1.28", |value| decimal(value, "", 5, 2)), Ok(vec![0, 0x80]));
    }

    #[test]
    fn whole_numbers_are_exact_and_in_range() {
        let long =
            |json: &str| with(json, |value| integer(value, "long", i64::MIN.into(), i64::MAX.into(), false));
        assert_eq!(long("9223372036854775807"), Ok(i64::MAX.into()));
        assert_eq!(long("-9223372036854775808"), Ok(i64::MIN.into()));
        assert_eq!(long("1.50e1"), Ok(15));
        for json in ["9223372036854775808", "1.5", "1e400", "\"1\"", "null"] {
            assert!(long(json).is_err(), "{json}");
        }
        assert_eq!(with("9007199254740992", |value| double(value, "", false)), Ok(9_007_199_254_740_992.0));
        for json in ["9007199254740993", "1e400", "\"1\"", "true"] {
            assert!(with(json, |value| double(value, "", false)).is_err(), "{json}");
        }
        assert_eq!(with("16777216", |value| float(value, "", false)), Ok(16_777_216.0));
        for json in ["16777217", "1e39"] {
            assert!(with(json, |value| float(value, "", false)).is_err(), "{json}");
        }
        assert_eq!(with("0.1", |value| float(value, "", false)), Ok(0.1));
    }

    #[test]
    fn times_need_their_offset_and_nothing_is_cut() {
        assert_eq!(with("\"1970-01-01T00:00:01+01:00\"", |v| instant_nanos(v, "")), Ok(-3_599_000_000_000));
        assert!(with("\"1970-01-01T00:00:01\"", |v| instant_nanos(v, "")).is_err());
        assert_eq!(with("\"1970-01-01T00:00:01.5\"", |v| local_nanos(v, "")), Ok(1_500_000_000));
        for json in ["\"1970-01-01T00:00:01Z\"", "\"1970-01-01T00:00:01+01:00\"", "1"] {
            assert!(with(json, |v| local_nanos(v, "")).is_err(), "{json}");
        }
        assert_eq!(with("\"1969-12-31\"", |v| days(v, "")), Ok(-1));
        assert!(with("\"1969-12-31T01:00:00\"", |v| days(v, "")).is_err());
        assert_eq!(with("\"00:00:01.000001\"", |v| time_nanos(v, "")), Ok(1_000_001_000));
    }
}
