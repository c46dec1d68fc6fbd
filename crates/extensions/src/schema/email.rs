//! Email addresses (RFC 5322): `local@domain`, alone or in angle brackets behind a name.

/// Whether a text is one address.
pub(crate) fn is_email(text: &str) -> bool {
    let mut rest = Cursor(text);
    rest.skip_space();
    let alone = rest.clone().address();
    if let Some(after) = alone
        && after.is_blank()
    {
        return true;
    }
    let Some(mut rest) = rest.phrase() else { return false };
    rest.skip_space();
    let Some(mut inside) = rest.after('<') else { return false };
    inside.skip_space();
    let Some(mut after) = inside.address() else { return false };
    after.skip_space();
    after.after('>').is_some_and(|rest| rest.is_blank())
}

#[derive(Clone)]
struct Cursor<'t>(&'t str);

impl<'t> Cursor<'t> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn after(&self, c: char) -> Option<Cursor<'t>> {
        self.0.strip_prefix(c).map(Cursor)
    }

    /// Whether only space and a comment are left.
    fn is_blank(&self) -> bool {
        let rest = self.0.trim_start_matches([' ', '\t']);
        let Some(mut comment) = rest.strip_prefix('(') else { return rest.is_empty() };
        let mut depth = 1;
        while depth > 0 {
            let mut characters = comment.chars();
            match characters.next() {
                Some('\\') => {
                    characters.next();
                }
                Some('(') => depth += 1,
                Some(')') => depth -= 1,
                Some(_) => {}
                None => return false,
            }
            comment = characters.as_str();
        }
        Cursor(comment).is_blank()
    }

    fn address(self) -> Option<Cursor<'t>> {
        let local = if self.0.starts_with('"') {
            let (text, rest) = self.quoted()?;
            if text.is_empty() {
                return None;
            }
            rest
        } else {
            self.atom(true)?
        };
        let mut domain = local.after('@')?;
        domain.skip_space();
        match domain.after('[') {
            None => domain.atom(true),
            Some(literal) => {
                let (address, rest) = literal.0.split_once(']')?;
                let plain = address.strip_prefix("IPv6:").unwrap_or(address);
                plain.parse::<std::net::IpAddr>().ok().map(|_| Cursor(rest))
            }
        }
    }

    /// Parses a phrase: words, quoted or not, up to the `<`.
    fn phrase(mut self) -> Option<Cursor<'t>> {
        loop {
            self.skip_space();
            if self.0.starts_with('<') {
                return Some(self);
            }
            self = if self.0.starts_with('"') { self.quoted()?.1 } else { self.atom(false)? };
        }
    }

    /// Skips the characters of an atom; with `strict`, dots may stand only between other characters.
    fn atom(self, strict: bool) -> Option<Cursor<'t>> {
        let is_part = |c: char| {
            c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c) || !c.is_ascii()
        };
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (atom, rest) = self.0.split_at(end);
        let dots = atom.starts_with('.') || atom.ends_with('.') || atom.contains("..");
        let is_atom = !atom.is_empty() && (!strict || !dots);
        is_atom.then_some(Cursor(rest))
    }

    fn quoted(self) -> Option<(String, Cursor<'t>)> {
        let mut characters = self.0.strip_prefix('"')?.chars();
        let mut text = String::new();
        loop {
            match characters.next()? {
                '"' => return Some((text, Cursor(characters.as_str()))),
                '\\' => text.push(characters.next().filter(|c| is_visible(*c))?),
                c if is_visible(c) => text.push(c),
                _ => return None,
            }
        }
    }
}

fn is_visible(c: char) -> bool {
    matches!(c, ' '..='~' | '\t') || !c.is_ascii()
}
