//! A notice as a line for a person and as one for a program.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibv_sa_wire::mad::{Notice, NoticeKind, Trap};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

/// The traps that have a name on the command line, besides all.
const NAMED: std::ops::RangeInclusive<u16> = 64..=259;

/// A trap's name as an argument: `gid-out-of-service`.
pub(crate) fn argument(trap: Trap) -> Option<String> {
    let word = |c: char| if matches!(c, ' ' | '_') { '-' } else { c.to_ascii_lowercase() };
    trap.name().map(|name| name.chars().map(word).collect())
}

/// The value of `--trap`: a number, a name, or `all`.
pub(crate) fn trap(value: &str) -> Result<Trap, String> {
    if value == "all" {
        return Ok(Trap::ALL);
    }
    let number = match value.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => value.parse(),
    };
    if let Ok(number) = number {
        return Ok(Trap(number));
    }
    NAMED.map(Trap).find(|trap| argument(*trap).as_deref() == Some(value)).ok_or_else(|| {
        "give a number from 0 to 65535, all, or a name such as gid-out-of-service (ibv-sa-monitor(1) lists them)"
            .into()
    })
}

/// When something happened that CLOCK_MONOTONIC had at that time.
pub(crate) fn wall_time(monotonic_ns: u64) -> SystemTime {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
    SystemTime::now() - Duration::from_nanos(now.saturating_sub(monotonic_ns))
}

/// In UTC, to the millisecond, as RFC 3339 writes it.
pub(crate) fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86400, since.as_secs() % 86400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// The date so many days after 1970-01-01. Years begin in March here, so that a leap day is a year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, date)
}

/// Its fields, with those of its details that are known.
pub(crate) fn fields(notice: &Notice) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.into(), value);
    match notice.kind() {
        NoticeKind::Generic { trap, producer } => {
            put("generic", true.into());
            put("trap", trap.0.into());
            put("name", trap.name().into());
            put("producer", producer.0.into());
        }
        NoticeKind::Vendor { device, vendor } => {
            put("generic", false.into());
            put("device_id", device.into());
            put("vendor", vendor.into());
        }
    }
    put("type", notice.notice_type().0.into());
    put("issuer_lid", notice.issuer_lid.get().into());
    put("issuer_gid", notice.issuer_gid.to_string().into());
    put("data", notice.details.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into());
    if let Some(gid) = notice.gid() {
        put("gid", gid.to_string().into());
    }
    if let Some(lid) = notice.lid() {
        put("lid", lid.into());
    }
    if let Some(port) = notice.port() {
        put("switch_port", port.into());
    }
    if let Some(change) = notice.local_change() {
        put("capabilities", change.capabilities.into());
        put("capabilities2", change.capabilities2.into());
        put("changes", change.other_changes.then_some(change.flags).into());
    }
    if let Some(guid) = notice.system_image_guid() {
        put("system_image_guid", guid.to_string().into());
    }
    if let Some(bad) = notice.bad_m_key() {
        put("method", bad.method.into());
        put("attribute", bad.attribute.into());
        put("modifier", bad.modifier.into());
        put("key", format!("0x{:x}", bad.m_key).into());
    }
    if let Some(bad) = notice.bad_key() {
        put("key", format!("0x{:x}", bad.key).into());
        put("from", json!({ "lid": bad.lid1, "qp": bad.qp1, "gid": bad.gid1.to_string() }));
        put("to", json!({ "lid": bad.lid2, "qp": bad.qp2, "gid": bad.gid2.to_string() }));
    }
    if let Some(bad) = notice.bad_switch_p_key() {
        put("key", format!("0x{:x}", bad.p_key).into());
        put("from", json!({ "lid": bad.lid1, "qp": bad.qp1, "gid": bad.gid1.to_string() }));
        put("to", json!({ "lid": bad.lid2, "qp": bad.qp2, "gid": bad.gid2.to_string() }));
        put("switch_lid", bad.switch_lid.into());
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibv_sa_wire::Gid;

    #[test]
    fn traps_by_number_and_by_name() {
        for (text, number) in [
            ("64", 64),
            ("0x100", 256),
            ("65535", 0xFFFF),
            ("all", 0xFFFF),
            ("gid-in-service", 64),
            ("gid-out-of-service", 65),
            ("bad-p-key-at-a-switch", 259),
        ] {
            assert_eq!(trap(text), Ok(Trap(number)));
        }
        for bad in ["", "-1", "65536", "gid", "all-traps ", "0x10000"] {
            assert!(trap(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn dates() {
        let at = |seconds: u64, ms: u64| timestamp(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + ms));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 7), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_709_251_200, 999), "2024-03-01T00:00:00.999Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn times_count_back_from_now() {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
        let then = wall_time(now - 5_000_000_000);
        let ago = SystemTime::now().duration_since(then).expect("in the past");
        assert!((5..7).contains(&ago.as_secs()), "{ago:?}");
    }

    #[test]
    fn fields_of_a_gid_and_of_a_vendor() {
        let gid: Gid = "fe80::10:7".parse().expect("a GID");
        let notice = Notice::about_gid(Trap(65), gid, 1, gid);
        let found = fields(&notice);
        assert_eq!((&found["trap"], &found["gid"]), (&json!(65), &json!("fe80::10:7")));
        assert_eq!(found["name"], "GID out of service");
        let vendor = Notice::vendor(ibv_sa_wire::mad::NoticeType::URGENT, 0x1234, 77);
        let found = fields(&vendor);
        assert_eq!((&found["vendor"], &found["device_id"]), (&json!(0x1234), &json!(77)));
        assert!(!found.contains_key("trap"));
    }
}
