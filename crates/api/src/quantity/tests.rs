use super::*;

/// Text, decoded and encoded again, after defaulting, negated, plus 1500m.
#[rustfmt::skip]
const NUMBERS: &[(&str, &str, &str, &str, &str)] = &[
    ("0", "0", "0", "0", "1500m"),
    ("-0", "0", "0", "0", "1500m"),
    ("00", "0", "0", "0", "1500m"),
    ("+", "0", "0", "0", "1500m"),
    ("-", "0", "0", "0", "1500m"),
    (".", "0", "0", "0", "1500m"),
    ("n", "0", "0", "0", "1500m"),
    ("Ki", "0", "0", "0", "1500m"),
    ("0m", "0", "0", "0", "1500m"),
    ("0.0", "0", "0", "0", "1500m"),
    ("e5", "0", "0", "0", "1500m"),
    ("1", "1", "1", "-1", "2500m"),
    ("5", "5", "5", "-5", "6500m"),
    ("+5", "+5", "+5", "-5", "6500m"),
    ("-5", "-5", "-5", "5", "-3500m"),
    ("007", "007", "007", "-7", "8500m"),
    ("0005", "0005", "0005", "-5", "6500m"),
    ("1.", "1.", "1.", "-1", "2500m"),
    ("1.5", "1500m", "1500m", "-1500m", "3"),
    (".5", "500m", "500m", "-500m", "2"),
    ("1.500", "1.500", "1.500", "-1500m", "3"),
    ("1.500k", "1.500k", "1.500k", "-1500", "1501500m"),
    ("01.5", "1500m", "1500m", "-1500m", "3"),
    ("1.0", "1", "1", "-1", "2500m"),
    ("1.50", "1500m", "1500m", "-1500m", "3"),
    ("1000m", "1", "1", "-1", "2500m"),
    ("1500m", "1500m", "1500m", "-1500m", "3"),
    ("5000m", "5", "5", "-5", "6500m"),
    ("999m", "999m", "999m", "-999m", "2499m"),
    ("0.1m", "100u", "1m", "-100u", "1500100u"),
    ("100u", "100u", "1m", "-100u", "1500100u"),
    ("100000u", "100m", "100m", "-100m", "1600m"),
    ("1n", "1n", "1m", "-1n", "1500000001n"),
    ("0.5n", "1n", "1m", "-1n", "1500000001n"),
    ("1.0000000001", "1000000001n", "1001m", "-1000000001n", "2500000001n"),
    ("-0.0000000001", "-1n", "-1m", "1n", "1499999999n"),
    ("1000000n", "1m", "1m", "-1m", "1501m"),
    ("1.000001", "1.000001", "1001m", "-1000001u", "2500001u"),
    ("1.500001", "1.500001", "1501m", "-1500001u", "3000001u"),
    ("1.100", "1.100", "1.100", "-1100m", "2600m"),
    ("1k", "1k", "1k", "-1k", "1001500m"),
    ("1000k", "1M", "1M", "-1M", "1000001500m"),
    ("1M", "1M", "1M", "-1M", "1000001500m"),
    ("1000000", "1M", "1M", "-1M", "1000001500m"),
    ("12345", "12345", "12345", "-12345", "12346500m"),
    ("12000", "12k", "12k", "-12k", "12001500m"),
    ("120000", "120k", "120k", "-120k", "120001500m"),
    ("1G", "1G", "1G", "-1G", "1000000001500m"),
    ("1T", "1T", "1T", "-1T", "1000000000001500m"),
    ("1P", "1P", "1P", "-1P", "1000000000000001500m"),
    ("1E", "1E", "1E", "-1E", "1000000000000000001500m"),
    ("1000E", "1", "1", "-1", "1000000000000000000001500m"),
    ("1000000E", "1", "1", "-1", "1000000000000000000000001500m"),
    ("123456789E", "123456789E", "123456789E", "-123456789E", "123456789000000000000000001500m"),
    ("1e3", "1e3", "1e3", "-1e3", "1001500e-3"),
    ("1E3", "1E3", "1E3", "-1e3", "1001500e-3"),
    ("1e-3", "1e-3", "1e-3", "-1e-3", "1501e-3"),
    ("1e+6", "1e+6", "1e+6", "-1e6", "1000001500e-3"),
    ("1.5e3", "1500", "1500", "-1500", "1501500e-3"),
    ("1e1", "10", "10", "-10", "11500e-3"),
    ("12e6", "12e6", "12e6", "-12e6", "12000001500e-3"),
    ("1e-9", "1e-9", "1e-3", "-1e-9", "1500000001e-9"),
    ("1e-10", "1e-9", "1e-3", "-1e-9", "1500000001e-9"),
    ("1e4294967299", "1e4294967299", "1e4294967299", "-1e3", "1001500e-3"),
    ("15e-1", "1500e-3", "1500e-3", "-1500e-3", "3"),
    ("1Ki", "1Ki", "1Ki", "-1Ki", "1025500m"),
    ("1024", "1024", "1024", "-1024", "1025500m"),
    ("1024Ki", "1Mi", "1Mi", "-1Mi", "1048577500m"),
    ("1023Ki", "1023Ki", "1023Ki", "-1023Ki", "1047553500m"),
    ("1025Ki", "1025Ki", "1025Ki", "-1025Ki", "1049601500m"),
    ("1.5Ki", "1536", "1536", "-1536", "1537500m"),
    ("0.5Ki", "512", "512", "-512", "513500m"),
    ("1.1Ki", "1126400m", "1126400m", "-1126400m", "1127900m"),
    ("0.0001Ki", "102400u", "103m", "-102400u", "1602400u"),
    ("512Mi", "512Mi", "512Mi", "-512Mi", "536870913500m"),
    ("1024Mi", "1Gi", "1Gi", "-1Gi", "1073741825500m"),
    ("1536Mi", "1536Mi", "1536Mi", "-1536Mi", "1610612737500m"),
    ("1.5Gi", "1536Mi", "1536Mi", "-1536Mi", "1610612737500m"),
    ("0.1Gi", "107374182400m", "107374182400m", "-107374182400m", "107374183900m"),
    ("8Gi", "8Gi", "8Gi", "-8Gi", "8589934593500m"),
    ("+3Gi", "+3Gi", "+3Gi", "-3Gi", "3221225473500m"),
    ("+3Pi", "3Pi", "3Pi", "-3Pi", "3377699720527873500m"),
    ("3Pi", "3Pi", "3Pi", "-3Pi", "3377699720527873500m"),
    ("1Ei", "1Ei", "1Ei", "-1Ei", "1152921504606846977500m"),
    ("7Ei", "7Ei", "7Ei", "-7Ei", "8070450532247928833500m"),
    ("8Ei", "9223372036854775807", "9223372036854775807", "-9223372036854775807", "9223372036854775808500m"),
    ("1024Ei", "9223372036854775807", "9223372036854775807", "-9223372036854775807", "9223372036854775808500m"),
    ("-1024Ei", "-9223372036854775807", "-9223372036854775807", "9223372036854775807", "-9223372036854775805500m"),
    ("9223372036854775807", "9223372036854775807", "9223372036854775807", "-9223372036854775807", "9223372036854775808500m"),
    ("9223372036854775808", "9223372036854775808", "9223372036854775808", "-9223372036854775808", "9223372036854775809500m"),
    ("9223372036854775807Ki", "9223372036854775807", "9223372036854775807", "-9223372036854775807", "9223372036854775808500m"),
    ("0.3333333333333333333333333333Gi", "357913941333333334n", "357913941334m", "-357913941333333334n", "357913942833333334n"),
    ("0.000000000001Ki", "2n", "1m", "-2n", "1500000002n"),
    ("123456789012345678", "123456789012345678", "123456789012345678", "-123456789012345678", "123456789012345679500m"),
    ("1234567890123456789", "1234567890123456789", "1234567890123456789", "-1234567890123456789", "1234567890123456790500m"),
    ("123456789012345678901234567890123456789012345", "123456789012345678901234567890123456789012345", "123456789012345678901234567890123456789012345", "-123456789012345678901234567890123456789012345", "123456789012345678901234567890123456789012346500m"),
    ("-99999999999999999999999999999999999999999999999999.9999999999", "-100", "-100", "100", "-99999999999999999999999999999999999999999999999998500m"),
    ("100000000000000000000000000000000000000000000000000000000", "100", "100", "-100", "100000000000000000000000000000000000000000000000000000001500m"),
    ("0.1234567890123456789", "123456790n", "124m", "-123456790n", "1623456790n"),
    (" 1 ", "1", "1", "-1", "2500m"),
    ("\t5Gi\n", "5Gi", "5Gi", "-5Gi", "5368709121500m"),
];

#[test]
fn texts_become_what_the_reference_makes_of_them() {
    for &(text, json, defaulted, negated, sum) in NUMBERS {
        assert_eq!(canonicalize_json(text).unwrap(), json, "{text}");
        assert_eq!(default_resource_json(text).unwrap(), defaulted, "{text}");
        let quantity: Quantity = text.trim().parse().unwrap();
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        if digits <= MAX_DIGITS {
            assert_eq!((-quantity).to_string(), negated, "-({text})");
            let mut total = quantity;
            total += Quantity::from_milli(1500, Format::DecimalSi);
            assert_eq!(total.to_string(), sum, "{text} + 1500m");
        }
    }
}

#[test]
fn large_exponents_stay_exponents() {
    for (text, json) in [
        ("1e100", "10e99"),
        ("1e1000000", "10e999999"),
        ("1000e999999999", "1e1000000002"),
        ("1e-1000000000", "1e-9"),
        ("-1e-2147483648", "-1e-9"),
        ("1234567890123456789e2147483646", "1234567890123456789e2147483646"),
    ] {
        assert_eq!(canonicalize_json(text).unwrap(), json, "{text}");
    }
}

#[test]
fn texts_that_are_no_quantities() {
    for (text, error) in [
        ("", ParseQuantityError::Format),
        ("x", ParseQuantityError::Format),
        ("1.2.3", ParseQuantityError::Format),
        ("1 2", ParseQuantityError::Format),
        ("1k5x", ParseQuantityError::Format),
        ("--1", ParseQuantityError::Suffix),
        ("1,5", ParseQuantityError::Format),
        ("1e", ParseQuantityError::Suffix),
        ("1e+", ParseQuantityError::Suffix),
        ("1x", ParseQuantityError::Format),
        ("K", ParseQuantityError::Suffix),
        ("1K", ParseQuantityError::Suffix),
        ("1ki", ParseQuantityError::Suffix),
        ("1kk", ParseQuantityError::Suffix),
        ("1e5.5", ParseQuantityError::Format),
        ("5+3", ParseQuantityError::Suffix),
        ("1e99999999999999999999", ParseQuantityError::Suffix),
        ("1ee5", ParseQuantityError::Suffix),
        ("1i", ParseQuantityError::Suffix),
        ("1KiB", ParseQuantityError::Format),
        ("é", ParseQuantityError::Format),
        ("1é", ParseQuantityError::Format),
        (".e-20", ParseQuantityError::Numeric),
        ("+e-10", ParseQuantityError::Numeric),
        ("e-10", ParseQuantityError::Numeric),
        ("1\\u0030", ParseQuantityError::Format),
        ("∞", ParseQuantityError::Format),
    ] {
        assert_eq!(canonicalize_json(text), Err(error), "{text}");
        assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
    }
    assert_eq!(canonicalize_protobuf(" 1"), Err(ParseQuantityError::Format));
    assert_eq!(
        ParseQuantityError::Format.to_string(),
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
    assert_eq!(ParseQuantityError::Suffix.to_string(), "unable to parse quantity's suffix");
    assert_eq!(ParseQuantityError::Numeric.to_string(), "unable to parse numeric part of quantity");
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn quantities_compare_by_number() {
    let ascending = [
        "-1e40",
        "-1Ei",
        "-1.5",
        "-1",
        "-1m",
        "0",
        "1n",
        "999u",
        "1m",
        "1",
        "1001m",
        "1k",
        "1Ki",
        "1025",
        "1M",
        "1Mi",
        "1e20",
        "12e19",
        "1e40",
        "1e1000000",
    ];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(quantity(a).cmp(&quantity(b)), i.cmp(&j), "{a} {b}");
        }
    }
    assert_eq!(quantity("1024Mi"), quantity("1Gi"));
    assert_eq!(quantity("1000m"), quantity("1e0"));
}

#[test]
fn values_are_rounded_away_from_zero() {
    for (text, value, milli, micro) in [
        ("0", 0, 0, 0),
        ("1n", 1, 1, 1),
        ("-1n", -1, -1, -1),
        ("1500m", 2, 1500, 1_500_000),
        ("-1500m", -2, -1500, -1_500_000),
        ("1Ki", 1024, 1_024_000, 1_024_000_000),
        ("1e30", i64::MAX, i64::MAX, i64::MAX),
        ("-1e2000000000", i64::MIN, i64::MIN, i64::MIN),
    ] {
        let q = quantity(text);
        assert_eq!(
            (q.value(), q.milli_value(), q.scaled_value(-6)),
            (value, milli, micro),
            "{text}"
        );
    }
}

#[test]
fn rounding_tells_whether_it_changed_anything() {
    for (text, scale, rounded, exact) in [
        ("1500m", -3, "1500m", true),
        ("1500m", 0, "2", false),
        ("-9", 1, "-10", false),
        ("1.0001", -3, "1001m", false),
        ("5Gi", 3, "5368710k", false),
        ("1", 18, "1E", false),
    ] {
        let mut q = Quantity { format: Format::DecimalSi, ..quantity(text) };
        assert_eq!(q.round_up(scale), exact, "{text}");
        assert_eq!(q.to_string(), rounded, "{text}");
    }
}

#[test]
fn sums_take_the_format_of_what_is_there() {
    for (a, b, sum, difference) in [
        ("0", "1Ki", "1Ki", "-1Ki"),
        ("1Ki", "0", "1Ki", "1Ki"),
        ("1Ki", "1k", "2024", "24"),
        ("1k", "1Ki", "2024", "-24"),
        ("1e3", "1k", "2e3", "0"),
        ("1Gi", "1Gi", "2Gi", "0"),
        ("1Ei", "7Ei", "8Ei", "-6Ei"),
        ("1", "1n", "1000000001n", "999999999n"),
    ] {
        let (mut plus, mut minus) = (quantity(a), quantity(a));
        plus += quantity(b);
        minus -= quantity(b);
        assert_eq!((&*plus.to_string(), &*minus.to_string()), (sum, difference), "{a} {b}");
    }
    // More digits than a quantity holds are rounded, not wrapped.
    let mut q = quantity("1e1000000");
    q += quantity("1n");
    assert!(q > quantity("1e1000000") && q < quantity("2e1000000"));
}

/// Texts of 3 MiB: a parser of quadratic time would take hours.
#[test]
fn hostile_texts_take_linear_time() {
    let length = 3 << 20;
    let texts = [
        "9".repeat(length),
        "0".repeat(length),
        format!("0.{}", "9".repeat(length)),
        format!("{}Ei", "9".repeat(length)),
        format!("0.{}1Ei", "0".repeat(length)),
        format!("1{}", "0".repeat(length)),
        format!("1e{}", "0".repeat(length)),
        "1e-2147483648".to_owned(),
        "1234567890123456789e2147483647".to_owned(),
    ];
    for text in &texts {
        assert!(canonicalize_json(text).is_ok() && text.parse::<Quantity>().is_ok());
    }
}
