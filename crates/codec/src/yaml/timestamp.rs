//! Recognition of timestamps. They are decoded as strings, and written in quotes.

/// Whether a text is a date, or a date and time, in one of the reference's forms.
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut at = Cursor(text.as_bytes());
    let date = at.date();
    date.is_some() && (at.0.is_empty() || at.zoned_time() || Cursor(at.0).spaced_time())
}

#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// Parses `2006-1-2`
    fn date(&mut self) -> Option<()> {
        let [a, b, c, d, b'-', rest @ ..] = self.0 else { return None };
        let year = [a, b, c, d].iter().try_fold(0, |year: u32, digit| {
            digit.is_ascii_digit().then(|| year * 10 + u32::from(*digit - b'0'))
        })?;
        self.0 = rest;
        let month = self.number()?;
        self.byte(b"-").then_some(())?;
        let day = self.number()?;
        let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
        let days = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u32::from(leap),
            _ => return None,
        };
        (1..=days).contains(&day).then_some(())
    }

    /// Parses `T15:4:5.999999999Z07:00`
    fn zoned_time(mut self) -> bool {
        self.byte(b"Tt") && self.time().is_some() && self.zone() && self.0.is_empty()
    }

    /// Parses ` 15:4:5.999999999`
    fn spaced_time(mut self) -> bool {
        let spaced = self.byte(b" ");
        while self.byte(b" ") {}
        spaced && self.time().is_some() && self.0.is_empty()
    }

    fn time(&mut self) -> Option<()> {
        let hour = self.number()?;
        self.byte(b":").then_some(())?;
        let minute = self.number()?;
        self.byte(b":").then_some(())?;
        let second = self.number()?;
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            self.0 = &self.0[1..];
            while self.byte(b"0123456789") {}
        }
        (hour < 24 && minute < 60 && second < 60).then_some(())
    }

    /// Parses `Z` or `+07:00`; 24 hours and 60 minutes are in use.
    fn zone(&mut self) -> bool {
        if self.byte(b"Z") {
            return true;
        }
        let [b'+' | b'-', a, b, b':', c, d, rest @ ..] = self.0 else { return false };
        self.0 = rest;
        let two = |tens: &u8, ones: &u8| {
            let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
            digits.then(|| (tens - b'0') * 10 + (ones - b'0'))
        };
        two(a, b).is_some_and(|hours| hours <= 24) && two(c, d).is_some_and(|minutes| minutes <= 60)
    }

    /// Parses one digit or two.
    fn number(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first().filter(|(digit, _)| digit.is_ascii_digit())?;
        self.0 = rest;
        let first = u32::from(first - b'0');
        match rest.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
            Some((second, rest)) => {
                self.0 = rest;
                Some(first * 10 + u32::from(second - b'0'))
            }
            None => Some(first),
        }
    }

    fn byte(&mut self, any_of: &[u8]) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if any_of.contains(first) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }
}
