//! Objects, and the cells that people see of them.

use kevel_api::builtin;
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_codec::json;

use super::{GROUPS, of};

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/kubernetes-1.36/captures/tables.json");

fn now() -> MicroTime {
    "2026-01-01T00:05:00.000000Z".parse().unwrap()
}

/// An object of the version in which its kind is stored, `n` by name and five minutes old.
fn object(group: &str, version: &str, kind: &str, rest: &str) -> Value {
    let metadata = r#""name":"n","creationTimestamp":"2026-01-01T00:00:00Z""#;
    let text = match rest.strip_prefix(r#"{"metadata":{"#) {
        Some(rest) => format!(r#"{{"metadata":{{{metadata},{rest}"#),
        None => format!(r#"{{"metadata":{{{metadata}}},{}"#, &rest[1..]).replace(",}", "}"),
    };
    let schema = builtin::schema(group, version, kind).unwrap();
    json::decode(text.as_bytes(), schema, json::Unknown::Report).unwrap().value
}

/// What is expected, `n` and `5m` being said for all.
fn cells(text: &str) -> Vec<Value> {
    let read = json::decode_any(text.as_bytes(), json::Unknown::Report).unwrap().value;
    read.as_list().unwrap().to_vec()
}

#[test]
fn kinds_are_shown_as_people_know_them() {
    for (group, version, kind, plural, rest, expected) in [
        ("", "v1", "LimitRange", "limitranges", "{}", r#"["n","2026-01-01T00:00:00Z"]"#),
        ("", "v1", "ServiceAccount", "serviceaccounts", "{}", r#"["n","5m"]"#),
        (
            "",
            "v1",
            "Namespace",
            "namespaces",
            r#"{"status":{"phase":"Active"}}"#,
            r#"["n","Active","5m"]"#,
        ),
        (
            "",
            "v1",
            "Secret",
            "secrets",
            r#"{"type":"Opaque","data":{"a":"eA==","b":""}}"#,
            r#"["n","Opaque",2,"5m"]"#,
        ),
        (
            "",
            "v1",
            "ConfigMap",
            "configmaps",
            r#"{"data":{"a":"b"},"binaryData":{"c":"eA=="}}"#,
            r#"["n",2,"5m"]"#,
        ),
        (
            "",
            "v1",
            "ComponentStatus",
            "componentstatuses",
            r#"{"conditions":[{"type":"Healthy","status":"True","message":"ok"}]}"#,
            r#"["n","Healthy","ok",""]"#,
        ),
        (
            "",
            "v1",
            "PodTemplate",
            "podtemplates",
            r#"{"template":{"metadata":{"labels":{"b":"c","a":""}},"spec":{"containers":[{"name":"x","image":"i"},{"name":"y","image":"j"}]}}}"#,
            r#"["n","x,y","i,j","a=,b=c"]"#,
        ),
        (
            "",
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            r#"{"spec":{"replicas":3,"selector":{"a":"b"},"template":{"spec":{"containers":[{"name":"x","image":"i"}]}}},"status":{"replicas":2,"readyReplicas":1}}"#,
            r#"["n",3,2,1,"5m","x","i","a=b"]"#,
        ),
        (
            "",
            "v1",
            "ResourceQuota",
            "resourcequotas",
            r#"{"status":{"hard":{"limits.cpu":"2","pods":"10","cpu":"1"},"used":{"pods":"3"}}}"#,
            r#"["n","cpu: 0/1, pods: 3/10","limits.cpu: 0/2","5m"]"#,
        ),
        (
            "",
            "v1",
            "Node",
            "nodes",
            r#"{"metadata":{"labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/":"","kubernetes.io/role":"infra"}},"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],"addresses":[{"type":"Hostname","address":"h"},{"type":"InternalIP","address":"10.0.0.1"}],"nodeInfo":{"kubeletVersion":"v1.36.3","kernelVersion":"6.1","architecture":"arm64"}}}"#,
            r#"["n","Ready,SchedulingDisabled","infra,worker","5m","v1.36.3","10.0.0.1","<none>","<unknown>","6.1 (arm64)","<unknown>"]"#,
        ),
        (
            "",
            "v1",
            "Node",
            "nodes",
            r#"{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}"#,
            r#"["n","NotReady","<none>","5m","","<none>","<none>","<unknown>","<unknown>","<unknown>"]"#,
        ),
        (
            "",
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:04:00Z","annotations":{"volume.beta.kubernetes.io/storage-class":"old"}},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"ns","name":"c"},"storageClassName":"new","volumeMode":"Block"},"status":{"phase":"Bound"}}"#,
            r#"["n","1Gi","RWO,RWX","Retain","Terminating","ns/c","old","<unset>","","5m","Block"]"#,
        ),
        (
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            r#"{"spec":{"volumeName":"v","storageClassName":"fast"},"status":{"phase":"Bound","accessModes":["ReadWriteOncePod"],"capacity":{"storage":"2Gi"}}}"#,
            r#"["n","Bound","v","2Gi","RWOP","fast","<unset>","5m","<unset>"]"#,
        ),
        (
            "",
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            r#"{"spec":{"resources":{"requests":{"storage":"2Gi"}}},"status":{"phase":"Pending","accessModes":["ReadWriteOnce"]}}"#,
            r#"["n","Pending","","","","","<unset>","5m","<unset>"]"#,
        ),
        (
            "",
            "v1",
            "Event",
            "events",
            r#"{"involvedObject":{"kind":"Pod","name":"p","fieldPath":"spec"},"reason":"Killing","message":" gone \n","type":"Normal","firstTimestamp":"2026-01-01T00:01:00Z","lastTimestamp":"2026-01-01T00:04:00Z","count":7,"source":{"component":"kubelet","host":"h"}}"#,
            r#"["60s","Normal","Killing","pod/p","spec","kubelet, h","gone","4m",7,"n"]"#,
        ),
        (
            "",
            "v1",
            "Event",
            "events",
            r#"{"involvedObject":{"kind":"Node"},"eventTime":"2026-01-01T00:04:30.500000Z","reportingComponent":"me"}"#,
            r#"["29s","","","node","","me","","29s",1,"n"]"#,
        ),
        (
            "",
            "v1",
            "Event",
            "events",
            r#"{"involvedObject":{},"series":{"count":3,"lastObservedTime":"2026-01-01T00:04:59.000000Z"}}"#,
            r#"["1s","","","","","","","<unknown>",3,"n"]"#,
        ),
        (
            "apps",
            "v1",
            "Deployment",
            "deployments",
            r#"{"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"t","operator":"In","values":["y","x"]}]},"template":{"spec":{"containers":[{"name":"x","image":"i"}]}}},"status":{"readyReplicas":2,"updatedReplicas":3}}"#,
            r#"["n","2/3",3,0,"5m","x","i","a=b,t in (x,y)"]"#,
        ),
        (
            "apps",
            "v1",
            "Deployment",
            "deployments",
            r#"{"spec":{"selector":{"matchExpressions":[{"key":"t","operator":"Like"}]}}}"#,
            r#"["n","0/0",0,0,"5m","","","<invalid>"]"#,
        ),
        (
            "apps",
            "v1",
            "ReplicaSet",
            "replicasets",
            r#"{"spec":{"replicas":1},"status":{"replicas":1}}"#,
            r#"["n",1,1,0,"5m","","","<none>"]"#,
        ),
        (
            "apps",
            "v1",
            "StatefulSet",
            "statefulsets",
            r#"{"spec":{"replicas":2},"status":{"readyReplicas":1}}"#,
            r#"["n","1/2","5m","",""]"#,
        ),
        (
            "apps",
            "v1",
            "DaemonSet",
            "daemonsets",
            r#"{"spec":{"selector":{"matchExpressions":[{"key":"t","operator":"Like"}]},"template":{"spec":{"nodeSelector":{"os":"linux"}}}},"status":{"desiredNumberScheduled":5,"currentNumberScheduled":4,"numberReady":3,"updatedNumberScheduled":2,"numberAvailable":1}}"#,
            r#"["n",5,4,3,2,1,"os=linux","5m","","","<error>"]"#,
        ),
        (
            "apps",
            "v1",
            "ControllerRevision",
            "controllerrevisions",
            r#"{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","controller":true}]},"revision":4}"#,
            r#"["n","statefulset.apps/web",4,"5m"]"#,
        ),
        (
            "batch",
            "v1",
            "Job",
            "jobs",
            r#"{"spec":{"completions":4},"status":{"succeeded":1,"startTime":"2026-01-01T00:03:30Z"}}"#,
            r#"["n","Running","1/4","90s","5m","","","<none>"]"#,
        ),
        (
            "batch",
            "v1",
            "Job",
            "jobs",
            r#"{"spec":{"parallelism":3},"status":{"conditions":[{"type":"Complete","status":"True"}],"startTime":"2026-01-01T00:03:30Z","completionTime":"2026-01-01T00:03:35Z"}}"#,
            r#"["n","Complete","0/1 of 3","5s","5m","","","<none>"]"#,
        ),
        (
            "batch",
            "v1",
            "Job",
            "jobs",
            r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:04:00Z"},"status":{"conditions":[{"type":"Suspended","status":"True"}]}}"#,
            r#"["n","Terminating","0/1","","5m","","","<none>"]"#,
        ),
        (
            "batch",
            "v1",
            "CronJob",
            "cronjobs",
            r#"{"spec":{"schedule":"* * * * *","suspend":false},"status":{"active":[{"name":"a"}],"lastScheduleTime":"2026-01-01T00:04:00Z"}}"#,
            r#"["n","* * * * *","<none>","False",1,"60s","5m","","","<none>"]"#,
        ),
        (
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"minReplicas":1,"maxReplicas":9,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}},{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"averageValue":"10"}}},{"type":"Object"}]},"status":{"currentReplicas":2,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":40}}}]}}"#,
            r#"["n","Deployment/d","cpu: 40%/80%, <unknown>/10 + 1 more...","1",9,2,"5m"]"#,
        ),
        (
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            r#"{"spec":{"metrics":[{"type":"External","external":{"target":{"averageValue":"5"}}},{"type":"Object","object":{"target":{"value":"7"}}}]},"status":{"currentMetrics":[{"external":{"current":{"averageValue":"4"}}},{"object":{"current":{"value":"6"}}}]}}"#,
            r#"["n","/","4/5 (avg), 6/7","<unset>",0,0,"5m"]"#,
        ),
        (
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            r#"{"spec":{"minAvailable":"50%"},"status":{"disruptionsAllowed":1}}"#,
            r#"["n","50%","N/A",1,"5m"]"#,
        ),
        (
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            r#"{"spec":{"maxUnavailable":0}}"#,
            r#"["n","N/A","0",0,"5m"]"#,
        ),
        (
            "networking.k8s.io",
            "v1",
            "Ingress",
            "ingresses",
            r#"{"spec":{"ingressClassName":"nginx","tls":[{}],"rules":[{"host":"a"},{},{"host":"b"},{"host":"c"},{}]},"status":{"loadBalancer":{"ingress":[{"ip":"2.2.2.2"},{"hostname":"h"},{"ip":"1.1.1.1"}]}}}"#,
            r#"["n","nginx","a,b,c + 2 more...","1.1.1.1,2.2.2.2,h","80, 443","5m"]"#,
        ),
        (
            "networking.k8s.io",
            "v1",
            "Ingress",
            "ingresses",
            "{}",
            r#"["n","<none>","*","","80","5m"]"#,
        ),
        (
            "networking.k8s.io",
            "v1",
            "IngressClass",
            "ingressclasses",
            r#"{"metadata":{"annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"c","parameters":{"apiGroup":"g","kind":"K","name":"p"}}}"#,
            r#"["n (default)","c","K.g/p","5m"]"#,
        ),
        (
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
            r#"{"spec":{"podSelector":{}}}"#,
            r#"["n","<none>","5m"]"#,
        ),
        (
            "networking.k8s.io",
            "v1",
            "ServiceCIDR",
            "servicecidrs",
            r#"{"spec":{"cidrs":["10.0.0.0/8","fd00::/64"]}}"#,
            r#"["n","10.0.0.0/8,fd00::/64","5m"]"#,
        ),
        (
            "networking.k8s.io",
            "v1",
            "IPAddress",
            "ipaddresses",
            r#"{"spec":{"parentRef":{"resource":"services","namespace":"ns","name":"s"}}}"#,
            r#"["n","services/ns/s","5m"]"#,
        ),
        (
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
            r#"{"addressType":"IPv4","ports":[{"port":80},{"name":"x"},{}],"endpoints":[{"addresses":["1","2"]},{"addresses":["3","4"]}]}"#,
            r#"["n","IPv4","80,x,*","1,2,3 + 1 more...","5m"]"#,
        ),
        (
            "discovery.k8s.io",
            "v1",
            "EndpointSlice",
            "endpointslices",
            r#"{"addressType":"IPv4"}"#,
            r#"["n","IPv4","<unset>","<unset>","5m"]"#,
        ),
        (
            "rbac.authorization.k8s.io",
            "v1",
            "ClusterRole",
            "clusterroles",
            "{}",
            r#"["n","2026-01-01T00:00:00Z"]"#,
        ),
        (
            "rbac.authorization.k8s.io",
            "v1",
            "RoleBinding",
            "rolebindings",
            r#"{"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"User","name":"v"},{"kind":"ServiceAccount","namespace":"ns","name":"s"}]}"#,
            r#"["n","Role/r","5m","u, v","","ns/s"]"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "CSIDriver",
            "csidrivers",
            "{}",
            r#"["n",true,false,false,"<unset>",false,"<none>","5m"]"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "CSIDriver",
            "csidrivers",
            r#"{"spec":{"attachRequired":false,"tokenRequests":[{"audience":"a"},{"audience":"b"}],"volumeLifecycleModes":["Persistent"]}}"#,
            r#"["n",false,false,false,"a,b",false,"Persistent","5m"]"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "CSINode",
            "csinodes",
            r#"{"spec":{"drivers":[{"name":"a","nodeID":"x"}]}}"#,
            r#"["n",1,"5m"]"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "StorageClass",
            "storageclasses",
            r#"{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p","allowVolumeExpansion":true}"#,
            r#"["n (default)","p","Delete","Immediate",true,"5m"]"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "VolumeAttachment",
            "volumeattachments",
            r#"{"spec":{"attacher":"a","nodeName":"h","source":{"persistentVolumeName":"v"}},"status":{"attached":true}}"#,
            r#"["n","a","v","h",true,"5m"]"#,
        ),
        (
            "storage.k8s.io",
            "v1",
            "VolumeAttributesClass",
            "volumeattributesclasses",
            r#"{"driverName":"d"}"#,
            r#"["n","d","5m"]"#,
        ),
        (
            "certificates.k8s.io",
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            r#"{"spec":{"signerName":"s","username":"u","expirationSeconds":3600},"status":{"conditions":[{"type":"Approved","status":"True"}],"certificate":"eA=="}}"#,
            r#"["n","5m","s","u","60m","Approved,Issued"]"#,
        ),
        (
            "certificates.k8s.io",
            "v1beta1",
            "PodCertificateRequest",
            "podcertificaterequests",
            r#"{"spec":{"podName":"p","signerName":"s"}}"#,
            r#"["n","p","","","s","Pending","<none>"]"#,
        ),
        (
            "certificates.k8s.io",
            "v1beta1",
            "ClusterTrustBundle",
            "clustertrustbundles",
            "{}",
            r#"["n","<none>"]"#,
        ),
        (
            "coordination.k8s.io",
            "v1",
            "Lease",
            "leases",
            r#"{"spec":{"holderIdentity":"h"}}"#,
            r#"["n","h","5m"]"#,
        ),
        (
            "coordination.k8s.io",
            "v1beta1",
            "LeaseCandidate",
            "leasecandidates",
            r#"{"spec":{"leaseName":"l","binaryVersion":"2","emulationVersion":"1"}}"#,
            r#"["n","l","2","1","5m"]"#,
        ),
        (
            "scheduling.k8s.io",
            "v1",
            "PriorityClass",
            "priorityclasses",
            r#"{"value":5,"preemptionPolicy":"Never"}"#,
            r#"["n",5,false,"5m","Never"]"#,
        ),
        (
            "scheduling.k8s.io",
            "v1alpha2",
            "PodGroup",
            "podgroups",
            r#"{"spec":{"schedulingPolicy":{"gang":{"minCount":2}},"podGroupTemplateRef":{"workload":{"workloadName":"w"}}},"status":{"conditions":[{"type":"PodGroupScheduled","status":"False"}]}}"#,
            r#"["n","Gang","w","Unschedulable","5m"]"#,
        ),
        (
            "node.k8s.io",
            "v1",
            "RuntimeClass",
            "runtimeclasses",
            r#"{"handler":"kata"}"#,
            r#"["n","kata","5m"]"#,
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "FlowSchema",
            "flowschemas",
            r#"{"spec":{"priorityLevelConfiguration":{"name":"l"},"matchingPrecedence":100,"distinguisherMethod":{"type":"ByUser"}},"status":{"conditions":[{"type":"Dangling","status":"False"}]}}"#,
            r#"["n","l",100,"ByUser","5m","False"]"#,
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            r#"{"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":0,"limitResponse":{"type":"Queue","queuing":{"queues":64,"handSize":6,"queueLengthLimit":50}}}}}"#,
            r#"["n","Limited",0,64,6,50,"5m"]"#,
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            r#"{"spec":{"type":"Exempt","exempt":{}}}"#,
            r#"["n","Exempt","<none>","<none>","<none>","<none>","5m"]"#,
        ),
        (
            "admissionregistration.k8s.io",
            "v1",
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            r#"{"webhooks":[{"name":"a"}]}"#,
            r#"["n",1,"5m"]"#,
        ),
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            r#"{"spec":{"paramKind":{"apiVersion":"g/v1","kind":"K"},"validations":[{"expression":"true"}]}}"#,
            r#"["n",1,"g/v1/K","5m"]"#,
        ),
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            r#"{"spec":{"policyName":"p","paramRef":{"name":"c"}}}"#,
            r#"["n","p","*/c","5m"]"#,
        ),
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            r#"{"spec":{"policyName":"p","paramRef":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["x","y"]}]}}}}"#,
            r#"["n","p","&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}","5m"]"#,
        ),
        (
            "apiregistration.k8s.io",
            "v1",
            "APIService",
            "apiservices",
            "{}",
            r#"["n","Local","Unknown","5m"]"#,
        ),
        (
            "apiregistration.k8s.io",
            "v1",
            "APIService",
            "apiservices",
            r#"{"spec":{"service":{"namespace":"ns","name":"s"}},"status":{"conditions":[{"type":"Available","status":"False","reason":"MissingEndpoints"}]}}"#,
            r#"["n","ns/s","False (MissingEndpoints)","5m"]"#,
        ),
        (
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "{}",
            r#"["n","2026-01-01T00:00:00Z"]"#,
        ),
        (
            "resource.k8s.io",
            "v1",
            "ResourceClaim",
            "resourceclaims",
            r#"{"status":{"allocation":{},"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}"#,
            r#"["n","allocated,reserved","5m"]"#,
        ),
        (
            "resource.k8s.io",
            "v1",
            "ResourceClaim",
            "resourceclaims",
            "{}",
            r#"["n","pending","5m"]"#,
        ),
        (
            "resource.k8s.io",
            "v1",
            "ResourceSlice",
            "resourceslices",
            r#"{"spec":{"driver":"d","nodeName":"h","pool":{"name":"p"}}}"#,
            r#"["n","h","d","p","5m"]"#,
        ),
        (
            "resource.k8s.io",
            "v1alpha3",
            "DeviceTaintRule",
            "devicetaintrules",
            r#"{"spec":{"taint":{"key":"k","effect":"NoSchedule","timeAdded":"2026-01-01T00:04:00Z"}}}"#,
            r#"["n","k","","NoSchedule","60s","5m"]"#,
        ),
        (
            "resource.k8s.io",
            "v1alpha3",
            "ResourcePoolStatusRequest",
            "resourcepoolstatusrequests",
            r#"{"spec":{"driver":"d"},"status":{"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:04:00Z"}],"poolCount":3,"pools":[{"totalDevices":4,"allocatedDevices":1},{"validationError":"x"}]}}"#,
            r#"["n","d","4","0","1","0","1",3,"Complete (2/3 pools)","60s"]"#,
        ),
        (
            "resource.k8s.io",
            "v1alpha3",
            "ResourcePoolStatusRequest",
            "resourcepoolstatusrequests",
            r#"{"spec":{"driver":"d"}}"#,
            r#"["n","d","-","-","-","-","-",0,"Pending","<none>"]"#,
        ),
        (
            "internal.apiserver.k8s.io",
            "v1alpha1",
            "StorageVersion",
            "storageversions",
            r#"{"status":{"storageVersions":[{"apiServerID":"a","encodingVersion":"v1"}]}}"#,
            r#"["n","<unset>","a=v1","5m"]"#,
        ),
        (
            "storagemigration.k8s.io",
            "v1beta1",
            "StorageVersionMigration",
            "storageversionmigrations",
            r#"{"spec":{"resource":{"group":"apps","resource":"deployments"}},"status":{"conditions":[{"type":"Running","status":"True"}]}}"#,
            r#"["n","deployments.apps","Running"]"#,
        ),
    ] {
        let object = object(group, version, kind, rest);
        assert_eq!(of(group, plural).cells(&object, now()), cells(expected), "{plural} {rest}");
    }
}

#[test]
fn services_are_told_by_where_they_are_reached() {
    for (spec, status, expected) in [
        (
            r#""type":"ClusterIP","clusterIPs":["10.0.0.1"],"ports":[{"port":80,"protocol":"TCP"}],"selector":{"a":"b"}"#,
            "",
            r#"["n","ClusterIP","10.0.0.1","<none>","80/TCP","5m","a=b"]"#,
        ),
        (
            r#""type":"NodePort","externalIPs":["1.1.1.1","2.2.2.2"],"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]"#,
            "",
            r#"["n","NodePort","<none>","1.1.1.1,2.2.2.2","80:30080/TCP,53/UDP","5m","<none>"]"#,
        ),
        (
            r#""type":"LoadBalancer""#,
            "",
            r#"["n","LoadBalancer","<none>","<pending>","<none>","5m","<none>"]"#,
        ),
        (
            r#""type":"LoadBalancer","externalIPs":["9.9.9.9"]"#,
            r#"{"hostname":"lb"},{"ip":"8.8.8.8","hostname":"x"}"#,
            r#"["n","LoadBalancer","<none>","8.8.8.8,lb,9.9.9.9","<none>","5m","<none>"]"#,
        ),
        (
            r#""type":"ExternalName","externalName":"example.com""#,
            "",
            r#"["n","ExternalName","<none>","example.com","<none>","5m","<none>"]"#,
        ),
        ("", "", r#"["n","","<none>","<unknown>","<none>","5m","<none>"]"#),
    ] {
        let rest = format!(
            r#"{{"spec":{{{spec}}},"status":{{"loadBalancer":{{"ingress":[{status}]}}}}}}"#
        );
        let object = object("", "v1", "Service", &rest);
        assert_eq!(of("", "services").cells(&object, now()), cells(expected), "{spec}");
    }
}

#[test]
fn of_endpoints_the_first_few_are_shown() {
    for (subsets, expected) in [
        ("", "<none>"),
        (r#"{"addresses":[{"ip":"1.1.1.1"}]}"#, "1.1.1.1"),
        (
            r#"{"addresses":[{"ip":"1.1.1.1"},{"ip":"fd00::1"}],"ports":[{"port":80}]}"#,
            "1.1.1.1:80,[fd00::1]:80",
        ),
        (
            r#"{"addresses":[{"ip":"1"},{"ip":"2"}],"ports":[{"port":1},{"port":2}]},{"addresses":[{"ip":"3"}]}"#,
            "1:1,2:1,1:2 + 2 more...",
        ),
        (r#"{"notReadyAddresses":[{"ip":"1"}],"ports":[{"port":1}]}"#, ""),
    ] {
        let object = object("", "v1", "Endpoints", &format!(r#"{{"subsets":[{subsets}]}}"#));
        let shown = of("", "endpoints").cells(&object, now());
        assert_eq!(shown[1].as_str(), Some(expected), "{subsets}");
    }
}

#[test]
fn pods_are_told_by_what_their_containers_do() {
    const TWO: &str = r#""containers":[{"name":"a"},{"name":"b"}]"#;
    const INIT: &str =
        r#""initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"a"}]"#;
    const SIDECAR: &str =
        r#""initContainers":[{"name":"s","restartPolicy":"Always"}],"containers":[{"name":"a"}]"#;
    for (spec, status, ready, reason, restarts) in [
        (TWO, r#""phase":"Pending""#, "0/2", "Pending", "0"),
        (TWO, r#""phase":"Failed","reason":"Evicted""#, "0/2", "Evicted", "0"),
        (
            TWO,
            r#""phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]"#,
            "0/2",
            "SchedulingGated",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","ready":true,"state":{"running":{}}},{"name":"b","ready":true,"state":{"running":{}},"restartCount":2}]"#,
            "2/2",
            "Running",
            "2",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","restartCount":1,"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:04:00Z"}},"state":{"waiting":{"reason":"CrashLoopBackOff"}}},{"name":"b","restartCount":1,"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:03:00Z"}},"state":{"terminated":{"exitCode":2}}}]"#,
            "0/2",
            "CrashLoopBackOff",
            "2 (60s ago)",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"signal":9}}}]"#,
            "0/2",
            "Signal:9",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":3}}}]"#,
            "0/2",
            "ExitCode:3",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"b","ready":true,"state":{"running":{}}}]"#,
            "1/2",
            "Running",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"b","ready":true,"state":{"running":{}}}]"#,
            "1/2",
            "NotReady",
            "0",
        ),
        (
            TWO,
            r#""phase":"Failed","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"b","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]"#,
            "0/2",
            "OOMKilled",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","restartCount":3,"state":{"terminated":{"exitCode":0}}},{"name":"j","state":{"running":{}}}]"#,
            "0/1",
            "Init:1/2",
            "3",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":5}}}]"#,
            "0/1",
            "Init:ExitCode:5",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":1,"signal":9}}}]"#,
            "0/1",
            "Init:Signal:9",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":1,"reason":"Error"}}}]"#,
            "0/1",
            "Init:Error",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"waiting":{"reason":"ImagePullBackOff"}}}]"#,
            "0/1",
            "Init:ImagePullBackOff",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"waiting":{"reason":"PodInitializing"}}}]"#,
            "0/1",
            "Init:0/2",
            "0",
        ),
        (
            INIT,
            r#""phase":"Running","initContainerStatuses":[{"name":"i","restartCount":3,"state":{"terminated":{"exitCode":0}}}],"containerStatuses":[{"name":"a","restartCount":1,"ready":true,"state":{"running":{}}}]"#,
            "1/1",
            "Running",
            "1",
        ),
        (
            INIT,
            r#""phase":"Running","conditions":[{"type":"Initialized","status":"True"}],"initContainerStatuses":[{"name":"i","restartCount":3,"state":{"running":{}}}],"containerStatuses":[{"name":"a","restartCount":1,"ready":true,"state":{"running":{}}}]"#,
            "1/1",
            "Init:0/2",
            "1",
        ),
        (
            SIDECAR,
            r#""phase":"Running","initContainerStatuses":[{"name":"s","restartCount":4,"started":true,"ready":true,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:04:58Z"}}}],"containerStatuses":[{"name":"a","ready":true,"restartCount":1,"state":{"running":{}}}]"#,
            "2/2",
            "Running",
            "5 (2s ago)",
        ),
        (
            SIDECAR,
            r#""phase":"Pending","initContainerStatuses":[{"name":"s","started":false,"state":{"running":{}}}]"#,
            "0/2",
            "Init:0/1",
            "0",
        ),
    ] {
        let pod =
            object("", "v1", "Pod", &format!(r#"{{"spec":{{{spec}}},"status":{{{status}}}}}"#));
        let shown = of("", "pods").cells(&pod, now());
        let shown: Vec<_> = shown[1..4].iter().filter_map(Value::as_str).collect();
        assert_eq!(shown, [ready, reason, restarts], "{status}");
    }
}

#[test]
fn pods_that_are_deleted_say_so_until_they_have_ended() {
    for (status, expected) in [
        (r#""phase":"Running""#, "Terminating"),
        (r#""phase":"Running","reason":"NodeLost""#, "Unknown"),
        (
            r#""phase":"Succeeded","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]"#,
            "Completed",
        ),
    ] {
        let rest = format!(
            r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:04:00Z"}},"status":{{{status}}}}}"#
        );
        let shown = of("", "pods").cells(&object("", "v1", "Pod", &rest), now());
        assert_eq!(shown[2].as_str(), Some(expected), "{status}");
    }
}

#[test]
fn wide_tables_say_where_a_pod_is() {
    for (rest, expected) in [
        ("{}", ["<none>", "<none>", "<none>", "<none>"]),
        (
            r#"{"spec":{"nodeName":"h","readinessGates":[{"conditionType":"a"},{"conditionType":"b"}]},"status":{"podIPs":[{"ip":"10.0.0.2"}],"nominatedNodeName":"o","conditions":[{"type":"b","status":"True"}]}}"#,
            ["10.0.0.2", "h", "o", "1/2"],
        ),
        (
            r#"{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.2"}]}}"#,
            ["10.0.0.1", "<none>", "<none>", "<none>"],
        ),
    ] {
        let shown = of("", "pods").cells(&object("", "v1", "Pod", rest), now());
        let shown: Vec<_> = shown[5..].iter().filter_map(Value::as_str).collect();
        assert_eq!(shown, expected, "{rest}");
    }
}

#[test]
fn pods_that_have_ended_are_marked() {
    for (phase, expected) in
        [("Running", None), ("Succeeded", Some("Succeeded")), ("Failed", Some("Failed"))]
    {
        let pod = object("", "v1", "Pod", &format!(r#"{{"status":{{"phase":"{phase}"}}}}"#));
        let completed = of("", "pods").completed(&pod);
        assert_eq!(completed.map(|completed| completed.reason), expected, "{phase}");
    }
}

#[test]
fn flow_schemas_are_shown_in_the_order_in_which_they_are_tried() {
    let schema = |name: &str, precedence: i64| {
        Value::Map(Map::from_iter([
            ("metadata", Value::Map(Map::from_iter([("name", Value::from(name))]))),
            ("spec", Value::Map(Map::from_iter([("matchingPrecedence", precedence.into())]))),
        ]))
    };
    let mut objects = [schema("b", 9000), schema("c", 1), schema("a", 9000)];
    of("flowcontrol.apiserver.k8s.io", "flowschemas").arrange(&mut objects);
    let names: Vec<_> = objects.iter().map(|object| object.str_at(&["metadata", "name"])).collect();
    assert_eq!(names, ["c", "a", "b"]);
}

#[test]
fn an_object_without_anything_has_a_cell_for_every_column() {
    for (group, files) in GROUPS {
        for kind in files.iter().copied().flatten() {
            let columns = of(group, kind.plural);
            let more = usize::from(kind.plural == "ipaddresses");
            let shown = columns.cells(&Value::Map(Map::new()), now());
            assert_eq!(shown.len(), columns.definitions().len() + more, "{}", kind.plural);
        }
    }
}

#[test]
fn every_entry_is_of_a_resource() {
    for (group, files) in GROUPS {
        for kind in files.iter().copied().flatten() {
            let is_it = |r: &&builtin::Resource| (r.group, r.path) == (*group, kind.plural);
            assert!(builtin::resources().iter().any(|r| is_it(&r)), "{group} {}", kind.plural);
        }
    }
}

#[test]
fn columns_are_the_reference_s() {
    let Ok(capture) = std::fs::read(CAPTURE) else {
        eprintln!("no {CAPTURE}: columns are not compared");
        return;
    };
    let capture = json::decode_any(&capture, json::Unknown::Report).unwrap().value;
    for (resource, expected) in capture.as_map().unwrap().iter() {
        let parts: Vec<&str> = resource.split('/').collect();
        let group = if parts[0] == "core" { "" } else { parts[0] };
        let columns = of(group, parts[2]);
        let ours: Vec<_> = columns
            .definitions()
            .iter()
            .map(|c| (&*c.name, &*c.ty, &*c.format, i64::from(c.priority)))
            .collect();
        let theirs: Vec<_> = expected
            .as_list()
            .unwrap()
            .iter()
            .map(|c| {
                let priority = c.at(&["priority"]).and_then(Value::as_int).unwrap();
                (c.str_at(&["name"]), c.str_at(&["type"]), c.str_at(&["format"]), priority)
            })
            .collect();
        assert_eq!(ours, theirs, "{resource}");
    }
}
