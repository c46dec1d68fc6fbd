use super::{PODS, cluster, pod};

#[tokio::test(flavor = "multi_thread")]
async fn limit_ranges_give_and_refuse() {
    let cluster = cluster(&[]).await;
    let limits = r#"{"metadata":{"name":"l"},"spec":{"limits":[
        {"type":"Container","default":{"cpu":"500m"},"defaultRequest":{"cpu":"100m"},"min":{"cpu":"50m"},"max":{"cpu":"2"},"maxLimitRequestRatio":{"cpu":"10"}},
        {"type":"Pod","max":{"cpu":"3"}},
        {"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}]}}"#;
    cluster.ok("admin", "POST /api/v1/namespaces/default/limitranges", limits).await;
    let dry = format!("POST {PODS}?dryRun=All");
    let container = |name: &str, resources: &str| {
        format!(r#"{{"name":"{name}","image":"i","resources":{{{resources}}}}}"#)
    };
    let made =
        cluster.until_ok(&dry, &pod(""), |made| !made["metadata"]["annotations"].is_null()).await;
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(resources.to_string(), r#"{"limits":{"cpu":"500m"},"requests":{"cpu":"100m"}}"#);
    let half = r#""limits":{"cpu":"2"}"#;
    for (containers, error) in [
        (
            container("c", r#""limits":{"cpu":"5"}"#),
            "[maximum cpu usage per Container is 2, but limit is 5, maximum cpu usage per Pod is 3, but limit is 5]",
        ),
        (
            container("c", r#""requests":{"cpu":"10m"},"limits":{"cpu":"100m"}"#),
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        (
            container("c", r#""requests":{"cpu":"100m"},"limits":{"cpu":"1500m"}"#),
            "cpu max limit to request ratio per Container is 10, but provided ratio is 15.000000",
        ),
        (
            format!("{},{}", container("c", half), container("d", half)),
            "maximum cpu usage per Pod is 3, but limit is 4",
        ),
    ] {
        let refused =
            cluster.refused("admin", &dry, &pod(&format!(r#""containers":[{containers}]"#))).await;
        assert_eq!(refused, format!(r#"403 pods "p" is forbidden: {error}"#));
    }
    let claim = |size: &str| {
        format!(
            r#"{{"metadata":{{"name":"v"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#
        )
    };
    let claims = "POST /api/v1/namespaces/default/persistentvolumeclaims";
    assert_eq!(
        cluster.refused("admin", claims, &claim("3Gi")).await,
        r#"403 persistentvolumeclaims "v" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"#
    );
    cluster.ok("admin", claims, &claim("2Gi")).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_limit_ranges_give_and_tell_a_bounded_amount() {
    let cluster = cluster(&[]).await;
    let amounts = |count: usize| {
        let amounts = (0..count).map(|number| format!(r#""example.com/r{number:05}":"1""#));
        amounts.collect::<Vec<_>>().join(",")
    };
    let limit_range = |name: &str, ty: &str, limits: &str| {
        let limits = format!(r#"{{"type":"{ty}",{limits}}}"#);
        format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"limits":[{limits}]}}}}"#)
    };
    let given = format!(r#""default":{{{}}}"#, amounts(6000));
    let limit_ranges = "POST /api/v1/namespaces/default/limitranges";
    cluster.ok("admin", limit_ranges, &limit_range("given", "Container", &given)).await;
    let dry = format!("POST {PODS}?dryRun=All");
    let containers = (0..20).map(|number| format!(r#"{{"name":"c{number}","image":"i"}}"#));
    let containers = format!(r#""containers":[{}]"#, containers.collect::<Vec<_>>().join(","));
    // The plug-in hears of limit ranges a moment later.
    let refused = |code: u16| move |answer: &(u16, String)| answer.0 == code;
    cluster.until_sent("admin", &dry, &pod(&containers), refused(413)).await;
    cluster.ok("admin", "DELETE /api/v1/namespaces/default/limitranges/given", "").await;
    let asked = format!(r#""min":{{{}}}"#, amounts(6000));
    cluster.ok("admin", limit_ranges, &limit_range("asked", "Pod", &asked)).await;
    let (_, told) = cluster.until_sent("admin", &dry, &pod(""), refused(403)).await;
    assert_eq!(told.matches("No request is specified").count(), 1000);
    assert!(told.contains("minimum example.com/r00999 usage per Pod is 1.  No request"));
    cluster.stop().await;
}
