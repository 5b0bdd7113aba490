//! A date and time without a zone, and `strftime` over it, because `${now:%Y-%m-%d}` names run directories.

/// A local date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CivilTime {
    /// Years of the common era.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 60.
    pub second: u32,
    /// 0 to 999999.
    pub microsecond: u32,
}

/// The start of 1970.
impl Default for CivilTime {
    fn default() -> Self {
        CivilTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0, microsecond: 0 }
    }
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl CivilTime {
    /// From seconds since 1970 with the zone's offset already added.
    pub fn from_unix(seconds: i64, microsecond: u32) -> Self {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        // Days are counted in 400-year eras that start on the first of March, so leap days come last.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        CivilTime {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as u32,
            day: (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32,
            hour: rest / 3_600,
            minute: rest % 3_600 / 60,
            second: rest % 60,
            microsecond,
        }
    }

    fn is_leap(&self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }

    /// 1 for the first of January.
    fn day_of_year(&self) -> u32 {
        const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let before = BEFORE.get(self.month.saturating_sub(1) as usize).copied().unwrap_or(0);
        before + self.day + u32::from(self.month > 2 && self.is_leap())
    }

    /// 0 for Sunday.
    fn weekday(&self) -> usize {
        let last = self.year - 1;
        let days = 365 * last + last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400);
        (days + i64::from(self.day_of_year())).rem_euclid(7) as usize
    }

    /// Formats as Python's `strftime` in the C locale. `Err` names a directive that is not known.
    pub fn format(&self, pattern: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                out.push(character);
                continue;
            }
            match characters.next() {
                Some(directive) => out.push_str(&self.directive(directive)?),
                None => out.push('%'),
            }
        }
        Ok(out)
    }

    fn directive(&self, directive: char) -> Result<String, String> {
        let month = MONTHS.get(self.month.saturating_sub(1) as usize).copied().unwrap_or("");
        let day = DAYS[self.weekday()];
        let short = |name: &str| name.chars().take(3).collect::<String>();
        let hour12 = (self.hour + 11) % 12 + 1;
        Ok(match directive {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{hour12:02}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => format!("{:06}", self.microsecond),
            'j' => format!("{:03}", self.day_of_year()),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'a' => short(day),
            'A' => day.to_owned(),
            'b' | 'h' => short(month),
            'B' => month.to_owned(),
            'w' => self.weekday().to_string(),
            'u' => {
                if self.weekday() == 0 {
                    "7".to_owned()
                } else {
                    self.weekday().to_string()
                }
            }
            'F' => self.format("%Y-%m-%d")?,
            'T' | 'X' => self.format("%H:%M:%S")?,
            'R' => self.format("%H:%M")?,
            'D' | 'x' => self.format("%m/%d/%y")?,
            'c' => self.format("%a %b %e %H:%M:%S %Y")?,
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            // A time without a zone prints none.
            'z' | 'Z' => String::new(),
            '%' => "%".to_owned(),
            other => return Err(format!("the time directive `%{other}` is not known")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_moment_formats() {
        let time = CivilTime::from_unix(1_709_210_096, 42);
        assert_eq!(time.format("%Y-%m-%d/%H-%M-%S").unwrap(), "2024-02-29/12-34-56");
        assert_eq!(
            time.format("%a %A %b %B %j %p %I %y %f %%").unwrap(),
            "Thu Thursday Feb February 060 PM 12 24 000042 %"
        );
        assert_eq!(CivilTime::from_unix(0, 0), CivilTime::default());
        assert_eq!(CivilTime::from_unix(-1, 0).format("%F %T").unwrap(), "1969-12-31 23:59:59");
    }
}
