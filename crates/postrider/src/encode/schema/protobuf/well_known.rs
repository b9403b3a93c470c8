//! Types of `google.protobuf` that have their own form in JSON.

use super::super::json::{Kind, Value};
use super::super::misfit::Misfit;
use super::super::number::{self, Fit};
use super::compiled::{Form, Message, Type, WellKnown};
use super::write::{Writer, put_varint, sign_extended};

const SECOND_NANOS: i128 = 1_000_000_000;

/// The first time that Protobuf allows.
const YEAR_ONE_NANOS: i128 = -62_135_596_800 * SECOND_NANOS;

/// The largest duration that Protobuf allows, about 10,000 years.
const DURATION_SECONDS_MAX: i128 = 315_576_000_000;

/// Keys of fields with a varint or a length: number and wire type.
const VARINT_1: u8 = 1 << 3;
const VARINT_2: u8 = 2 << 3;
const LENGTH_1: u8 = 1 << 3 | 2;
const LENGTH_2: u8 = 2 << 3 | 2;

impl Writer<'_, '_> {
    /// Appends the fields of a message that has its own form in JSON.
    pub(super) fn well_known(&mut self, known: WellKnown, message: &Message, value: Value<'_>) -> Fit<()> {
        match known {
            WellKnown::Timestamp => {
                let nanos = number::instant_nanos(value, "a time such as 2026-01-31T12:00:00Z")?;
                if nanos < YEAR_ONE_NANOS {
                    return Err(Misfit::new(
                        "a time such as 2026-01-31T12:00:00Z",
                        "a time before the year 1",
                    ));
                }
                put_time(nanos.div_euclid(SECOND_NANOS), nanos.rem_euclid(SECOND_NANOS), self.out);
            }
            WellKnown::Duration => {
                let nanos = duration_nanos(value)?;
                put_time(nanos / SECOND_NANOS, nanos % SECOND_NANOS, self.out);
            }
            WellKnown::FieldMask => {
                if value.kind() != Kind::Text {
                    return Err(Misfit::new("names of fields with commas", value.kind().words()));
                }
                for path in value.text().split(',').filter(|path| !path.is_empty()) {
                    let path = snake_case(path);
                    self.out.push(LENGTH_1);
                    put_varint(path.len() as u64, self.out);
                    self.out.extend_from_slice(path.as_bytes());
                }
            }
            WellKnown::Wrapper => {
                let Some(field) = message.fields.first() else { return Ok(()) };
                let wrapped = super::compiled::Field {
                    name: field.name.clone(),
                    json_name: field.json_name.clone(),
                    of: field.of.clone(),
                    form: Form::Implicit,
                    oneof: None,
                    tag: field.tag.clone(),
                };
                self.field(&wrapped, value)?;
            }
            WellKnown::Struct => self.fields_of_struct(value)?,
            WellKnown::ListValue => self.items_of_list(value)?,
            WellKnown::Value => self.any_json(value)?,
        }
        Ok(())
    }

    fn fields_of_struct(&mut self, value: Value<'_>) -> Fit<()> {
        if value.kind() != Kind::Object {
            return Err(Misfit::new("an object", value.kind().words()));
        }
        let mut entries: Vec<_> = value.entries().map(|(name, value)| (name.text(), value)).collect();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Misfit::new("each name once", "it twice").in_field(&pair[0].0));
        }
        for (name, value) in entries {
            self.out.push(LENGTH_1);
            self.with_length(|writer| {
                writer.out.push(LENGTH_1);
                put_varint(name.len() as u64, writer.out);
                writer.out.extend_from_slice(name.as_bytes());
                writer.out.push(LENGTH_2);
                writer.with_length(|writer| writer.any_json(value))
            })
            .map_err(|misfit| misfit.in_field(&name))?;
        }
        Ok(())
    }

    fn items_of_list(&mut self, value: Value<'_>) -> Fit<()> {
        if value.kind() != Kind::Array {
            return Err(Misfit::new("an array", value.kind().words()));
        }
        for (number, item) in value.items().enumerate() {
            self.out.push(LENGTH_1);
            self.with_length(|writer| writer.any_json(item)).map_err(|misfit| misfit.in_item(number))?;
        }
        Ok(())
    }

    /// `google.protobuf.Value`: the number of the field is the kind.
    fn any_json(&mut self, value: Value<'_>) -> Fit<()> {
        match value.kind() {
            Kind::Null => self.out.extend([VARINT_1, 0]),
            Kind::Number => {
                self.out.push(2 << 3 | 1);
                self.value(&Type::Double, value)?;
            }
            Kind::Text => {
                self.out.push(3 << 3 | 2);
                self.value(&Type::Text, value)?;
            }
            Kind::Bool(truth) => self.out.extend([4 << 3, truth.into()]),
            Kind::Object => {
                self.out.push(5 << 3 | 2);
                self.with_length(|writer| writer.fields_of_struct(value))?;
            }
            Kind::Array => {
                self.out.push(6 << 3 | 2);
                self.with_length(|writer| writer.items_of_list(value))?;
            }
        }
        Ok(())
    }
}

/// Appends the seconds and nanoseconds of a time; zero is not written.
pub(in super::super) fn put_time(seconds: i128, nanos: i128, out: &mut Vec<u8>) {
    for (key, number) in [(VARINT_1, seconds), (VARINT_2, nanos)] {
        if number != 0 {
            out.push(key);
            put_varint(sign_extended(i64::try_from(number).unwrap_or_default()), out);
        }
    }
}

/// The nanoseconds of a text such as `1.5s`.
fn duration_nanos(value: Value<'_>) -> Fit<i128> {
    let wanted = "a duration such as 1.5s";
    let misfit = |found: &str| Misfit::new(wanted, found);
    if value.kind() != Kind::Text {
        return Err(misfit(value.kind().words()));
    }
    let text = value.text();
    let no_duration = || misfit("a text that is no duration");
    let number = text.strip_suffix('s').ok_or_else(no_duration)?;
    let (sign, number) = number.strip_prefix('-').map_or((1, number), |number| (-1, number));
    let (seconds, fraction) = number.split_once('.').map_or((number, "0"), |parts| parts);
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(seconds) || !are_digits(fraction) {
        return Err(no_duration());
    }
    if fraction.len() > 9 {
        return Err(misfit("a duration with more decimals"));
    }
    let seconds: i128 = seconds.parse().unwrap_or(i128::MAX);
    if seconds > DURATION_SECONDS_MAX {
        return Err(misfit("a duration out of range"));
    }
    let nanos: i128 = format!("{fraction:0<9}").parse().unwrap_or_default();
    Ok(sign * (seconds * SECOND_NANOS + nanos))
}

fn snake_case(path: &str) -> String {
    let mut snake = String::with_capacity(path.len() + 4);
    for character in path.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}
