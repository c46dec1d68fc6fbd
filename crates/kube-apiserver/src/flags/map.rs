//! Keys with values.

use super::list::{read_csv, write_csv};
use super::{Value, ValueType};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Pairs separated by commas: `a=1,b=2`. A key may stand without a value. More of them join those
/// that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationMap(pub BTreeMap<String, String>);

/// Pairs `key=value`, one for each time that the flag is given; the value may contain any character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringPairs(pub BTreeMap<String, String>);

/// Pairs in a comma-separated list where quotes protect commas: `"a,b=1,2",c=3`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringToString(pub BTreeMap<String, String>);

/// Several values under each key: `a:x,a:y,z`. What has no key stands under the empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Multimap(pub BTreeMap<String, Vec<String>>);

macro_rules! is_a_map {
    ($($type:ty: $value:ty),*) => {$(
        impl Deref for $type {
            type Target = BTreeMap<String, $value>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl DerefMut for $type {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    )*};
}
is_a_map!(ConfigurationMap: String, StringPairs: String, StringToString: String);
is_a_map!(Multimap: Vec<String>);

impl Value for ConfigurationMap {
    fn value_type(&self) -> ValueType {
        ValueType::new("mapStringString", "")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.0.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        Ok(())
    }

    fn text(&self) -> String {
        sorted_pairs(&self.0).join(",")
    }
}

impl Value for StringPairs {
    fn value_type(&self) -> ValueType {
        ValueType::new("mapStringString", "")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        if !repeated {
            self.0.clear();
        }
        let malformed = "malformed pair, expect string=string";
        let (key, value) = text.split_once('=').ok_or(malformed)?;
        self.0.insert(key.trim().to_owned(), value.trim().to_owned());
        Ok(())
    }

    fn text(&self) -> String {
        sorted_pairs(&self.0).join(",")
    }
}

impl Value for StringToString {
    /// Type of the flag: its help shows `[]` as the default, as the reference's.
    fn value_type(&self) -> ValueType {
        ValueType::new("stringToString", "")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        // One pair needs no quotes around a list of values.
        let pairs = match text.matches('=').count() {
            0 => return Err(format!("{text} must be formatted as key=value")),
            1 => vec![text.trim_matches('"').to_owned()],
            _ => read_csv(text)?,
        };
        let mut map = BTreeMap::new();
        for pair in pairs {
            let malformed = || format!("{pair} must be formatted as key=value");
            let (key, value) = pair.split_once('=').ok_or_else(malformed)?;
            map.insert(key.to_owned(), value.to_owned());
        }
        if repeated {
            self.0.extend(map);
        } else {
            self.0 = map;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!("[{}]", write_csv(&pairs))
    }
}

impl Value for Multimap {
    fn value_type(&self) -> ValueType {
        ValueType::new("colonSeparatedMultimapStringString", "")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        if !repeated {
            self.0.clear();
        }
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once(':').unwrap_or(("", pair));
            let values = self.0.entry(key.trim().to_owned()).or_default();
            values.push(value.trim().to_owned());
        }
        Ok(())
    }

    fn text(&self) -> String {
        let pairs = self.0.iter();
        let pairs =
            pairs.flat_map(|(key, values)| values.iter().map(move |v| format!("{key}:{v}")));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// Sorted as pairs, not by key: `a-b=1` goes before `a=1`.
fn sorted_pairs(map: &BTreeMap<String, String>) -> Vec<String> {
    let mut pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<V: Value + Default>(texts: &[&str]) -> Result<String, String> {
        let mut value = V::default();
        for (index, text) in texts.iter().enumerate() {
            value.set(text, index > 0)?;
        }
        Ok(value.text())
    }

    #[test]
    fn maps_print_sorted() {
        for (printed, expected) in [
            (set::<ConfigurationMap>(&["b=2, a = 1 ,,c"]), "a=1,b=2,c="),
            (set::<ConfigurationMap>(&["a=1", "a=2=3"]), "a=2=3"),
            (set::<StringPairs>(&["b=x,y", "a=1"]), "a=1,b=x,y"),
            (set::<StringToString>(&["m,l='a,b'"]), r#"["m,l='a,b'"]"#),
            (set::<StringToString>(&["\"m,l=a,b\",n=c", "o=d"]), r#"["m,l=a,b",n=c,o=d]"#),
            (set::<Multimap>(&["B=true,kube:C=true", "A=false"]), ":B=true,:A=false,kube:C=true"),
        ] {
            assert_eq!(printed.as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_map() {
        for (printed, message) in [
            (set::<StringPairs>(&["a"]), "malformed pair, expect string=string"),
            (set::<StringToString>(&["a"]), "a must be formatted as key=value"),
            (set::<StringToString>(&["a=1,b,c=2"]), "b must be formatted as key=value"),
        ] {
            assert_eq!(printed, Err(message.to_owned()));
        }
    }
}
