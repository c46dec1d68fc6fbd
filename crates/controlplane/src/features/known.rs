//! The feature gates of the API level, with their stage and default.

use super::{Gate, Stage::*};

/// Makes [`Feature`] and the table of its gates out of one list.
macro_rules! features {
    ($($name:ident: $stage:ident, $default:literal $(, $locked:ident $($needed:ident)*)* ;)*) => {
        /// A feature that can be switched, by the name of its gate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $(#[doc = concat!("`", stringify!($name), "`")] $name,)*
        }

        /// Every gate but the two that switch many, in the order of the features.
        pub(super) static KNOWN: &[Gate] = &[
            $(Gate {
                feature: Feature::$name,
                name: stringify!($name),
                stage: $stage,
                default: $default,
                locked: false,
                needs: &[],
            }$(.$locked(&[$(Feature::$needed),*]))*,)*
        ];
    };
}

impl Gate {
    const fn locked(self, _: &'static [Feature]) -> Gate {
        Gate { locked: true, ..self }
    }

    const fn needs(self, needs: &'static [Feature]) -> Gate {
        Gate { needs, ..self }
    }
}

// Sorted by name.
features! {
    APIResponseCompression: Beta, true;
    APIServerIdentity: Beta, true;
    APIServerTracing: Ga, true, locked;
    APIServingWithRoutine: Alpha, false;
    AggregatedDiscoveryRemoveBetaType: Deprecated, true, locked;
    AllowDNSOnlyNodeCSR: Deprecated, false;
    AllowInsecureKubeletCertificateSigningRequests: Deprecated, false;
    AllowOverwriteTerminationGracePeriodSeconds: Deprecated, false, locked;
    AllowParsingUserUIDFromCertAuth: Beta, true;
    AllowServiceExternalIPs: Ga, true;
    AllowUnsafeMalformedObjectDeletion: Alpha, false;
    AnonymousAuthConfigurableEndpoints: Ga, true, locked;
    AnyVolumeDataSource: Ga, true, locked;
    AtomicFIFO: Beta, true;
    AuthorizeNodeWithSelectors: Ga, true, locked, needs AuthorizeWithSelectors;
    AuthorizePodWebsocketUpgradeCreatePermission: Beta, true;
    AuthorizeWithSelectors: Ga, true, locked;
    BtreeWatchCache: Ga, true, locked;
    CBORServingAndStorage: Alpha, false;
    CPUManagerPolicyAlphaOptions: Alpha, false;
    CPUManagerPolicyBetaOptions: Beta, true;
    CPUManagerPolicyOptions: Ga, true, locked;
    CRDObservedGenerationTracking: Beta, true;
    CRDValidationRatcheting: Ga, true, locked;
    CRIListStreaming: Alpha, false;
    CSIServiceAccountTokenSecrets: Ga, true, locked;
    CSIVolumeHealth: Alpha, false;
    ChangeContainerStatusOnKubeletRestart: Deprecated, false;
    ClearingNominatedNodeNameAfterBinding: Beta, true;
    ClientsAllowCARotation: Beta, true;
    ClientsAllowCBOR: Alpha, false;
    ClientsAllowTLSCacheGC: Beta, true;
    ClientsPreferCBOR: Alpha, false;
    CloudControllerManagerWatchBasedRoutesReconciliation: Alpha, false;
    CloudControllerManagerWebhook: Alpha, false;
    ClusterTrustBundle: Beta, false;
    ClusterTrustBundleProjection: Beta, false, needs ClusterTrustBundle;
    ComponentFlagz: Beta, true;
    ComponentStatusz: Beta, true;
    ConcurrentWatchObjectDecode: Beta, false;
    ConsistentListFromCache: Ga, true, locked;
    ConstrainedImpersonation: Beta, true;
    ContainerCheckpoint: Beta, true;
    ContainerRestartRules: Beta, true;
    ContainerStopSignals: Alpha, false;
    ContextualLogging: Beta, true;
    ControllerManagerReleaseLeaderElectionLockOnExit: Alpha, false;
    CoordinatedLeaderElection: Beta, false;
    CrossNamespaceVolumeDataSource: Alpha, false;
    CustomCPUCFSQuotaPeriod: Ga, true;
    CustomResourceFieldSelectors: Ga, true, locked;
    DRAAdminAccess: Ga, true, locked, needs DynamicResourceAllocation;
    DRAConsumableCapacity: Beta, true, needs DynamicResourceAllocation;
    DRADeviceBindingConditions: Beta, true, needs DRAResourceClaimDeviceStatus DynamicResourceAllocation;
    DRADeviceTaintRules: Beta, false, needs DRADeviceTaints;
    DRADeviceTaints: Beta, true, needs DynamicResourceAllocation;
    DRAExtendedResource: Beta, true, needs DynamicResourceAllocation;
    DRAListTypeAttributes: Alpha, false, needs DynamicResourceAllocation;
    DRANodeAllocatableResources: Alpha, false, needs DynamicResourceAllocation;
    DRAPartitionableDevices: Beta, true, needs DynamicResourceAllocation;
    DRAPrioritizedList: Ga, true, needs DynamicResourceAllocation;
    DRAResourceClaimDeviceStatus: Beta, true;
    DRAResourceClaimGranularStatusAuthorization: Beta, true, needs DRAResourceClaimDeviceStatus DynamicResourceAllocation;
    DRAResourcePoolStatus: Alpha, false, needs DynamicResourceAllocation;
    DRASchedulerFilterTimeout: Beta, true, needs DynamicResourceAllocation;
    DRAWorkloadResourceClaims: Alpha, false, needs DynamicResourceAllocation GenericWorkload;
    DeclarativeValidation: Ga, true, locked;
    DeclarativeValidationBeta: Beta, true, needs DeclarativeValidation;
    DeclarativeValidationTakeover: Deprecated, false, needs DeclarativeValidation;
    DeploymentReplicaSetTerminatingReplicas: Beta, true;
    DetectCacheInconsistency: Beta, true;
    DisableAllocatorDualWrite: Ga, true, locked, needs MultiCIDRServiceAllocator;
    DisableCPUQuotaWithExclusiveCPUs: Deprecated, true;
    DisableNodeKubeProxyVersion: Deprecated, true, locked;
    DynamicResourceAllocation: Ga, true, locked;
    EnvFiles: Beta, true;
    EventedPLEG: Alpha, false;
    ExecProbeTimeout: Ga, true, locked;
    ExtendWebSocketsToKubelet: Beta, true, needs NodeDeclaredFeatures;
    ExternalServiceAccountTokenSigner: Ga, true, locked;
    GangScheduling: Alpha, false, needs GenericWorkload;
    GenericWorkload: Alpha, false;
    GitRepoVolumeDriver: Deprecated, false, locked;
    GracefulNodeShutdown: Beta, true;
    GracefulNodeShutdownBasedOnPodPriority: Beta, true, needs GracefulNodeShutdown;
    HPAConfigurableTolerance: Beta, true;
    HPAScaleToZero: Alpha, false;
    HostnameOverride: Beta, true;
    ImageMaximumGCAge: Ga, true, locked;
    ImageVolume: Ga, true, locked;
    ImageVolumeWithDigest: Alpha, false, needs ImageVolume;
    InOrderInformers: Ga, true, locked;
    InOrderInformersBatchProcess: Beta, true;
    InPlacePodLevelResourcesVerticalScaling: Beta, true, needs InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources;
    InPlacePodVerticalScaling: Ga, true, locked;
    InPlacePodVerticalScalingExclusiveCPUs: Alpha, false, needs InPlacePodVerticalScaling;
    InPlacePodVerticalScalingExclusiveMemory: Alpha, false, needs InPlacePodVerticalScaling;
    InPlacePodVerticalScalingInitContainers: Beta, true, needs InPlacePodVerticalScaling NodeDeclaredFeatures;
    InformerResourceVersion: Ga, true;
    JobBackoffLimitPerIndex: Ga, true, locked;
    JobManagedBy: Ga, true, locked;
    JobPodReplacementPolicy: Ga, true, locked;
    JobSuccessPolicy: Ga, true, locked;
    KMSv1: Deprecated, false;
    KubeletCgroupDriverFromCRI: Ga, true, locked;
    KubeletCrashLoopBackOffMax: Beta, true;
    KubeletEnsureSecretPulledImages: Beta, true;
    KubeletFineGrainedAuthz: Ga, true, locked;
    KubeletInUserNamespace: Alpha, false;
    KubeletPSI: Ga, true, locked;
    KubeletPodResourcesDynamicResources: Ga, true, locked;
    KubeletPodResourcesGet: Ga, true, locked;
    KubeletPodResourcesListUseActivePods: Deprecated, true;
    KubeletRegistrationGetOnExistsOnly: Deprecated, false;
    KubeletSeparateDiskGC: Beta, true;
    KubeletServiceAccountTokenForCredentialProviders: Beta, true;
    KubeletTracing: Ga, true, locked;
    ListFromCacheSnapshot: Beta, true;
    LocalStorageCapacityIsolationFSQuotaMonitoring: Beta, false;
    LogarithmicScaleDown: Ga, true, locked;
    LoggingAlphaOptions: Alpha, false;
    LoggingBetaOptions: Beta, true;
    ManifestBasedAdmissionControlConfig: Alpha, false;
    MatchLabelKeysInPodAffinity: Ga, true, locked;
    MatchLabelKeysInPodTopologySpread: Beta, true;
    MatchLabelKeysInPodTopologySpreadSelectorMerge: Beta, true, needs MatchLabelKeysInPodTopologySpread;
    MaxUnavailableStatefulSet: Beta, false;
    MemoryQoS: Alpha, false;
    MultiCIDRServiceAllocator: Ga, true, locked;
    MutableCSINodeAllocatableCount: Ga, true, locked;
    MutablePVNodeAffinity: Alpha, false;
    MutablePodResourcesForSuspendedJobs: Beta, true;
    MutableSchedulingDirectivesForSuspendedJobs: Beta, true;
    MutatingAdmissionPolicy: Ga, true;
    NFTablesProxyMode: Ga, true, locked;
    NativeHistograms: Alpha, false;
    NodeDeclaredFeatures: Beta, true;
    NodeInclusionPolicyInPodTopologySpread: Ga, true, locked;
    NodeLogQuery: Ga, true, locked;
    NodeSwap: Ga, true, locked;
    NominatedNodeNameForExpectation: Beta, true;
    OpenAPIEnums: Beta, true;
    OpportunisticBatching: Beta, true;
    OrderedNamespaceDeletion: Ga, true, locked;
    PLEGOnDemandRelist: Beta, true;
    PersistentVolumeClaimUnusedSinceTime: Alpha, false;
    PodAndContainerStatsFromCRI: Alpha, false;
    PodCertificateRequest: Beta, false, needs AuthorizeNodeWithSelectors;
    PodDeletionCost: Beta, true;
    PodLevelResourceManagers: Alpha, false, needs PodLevelResources;
    PodLevelResources: Beta, true;
    PodLifecycleSleepAction: Ga, true, locked;
    PodLifecycleSleepActionAllowZero: Ga, true, locked, needs PodLifecycleSleepAction;
    PodLogsQuerySplitStreams: Alpha, false;
    PodObservedGenerationTracking: Ga, true, locked;
    PodReadyToStartContainersCondition: Beta, true;
    PodSchedulingReadiness: Ga, true, locked;
    PodTopologyLabelsAdmission: Beta, true;
    PodsAPI: Alpha, false;
    PortForwardWebsockets: Beta, true;
    PreferSameTrafficDistribution: Ga, true, locked;
    PreventStaticPodAPIReferences: Beta, true;
    ProcMountType: Ga, true, locked, needs UserNamespacesSupport;
    QOSReserved: Alpha, false;
    RecoverVolumeExpansionFailure: Ga, true, locked;
    RecursiveReadOnlyMounts: Ga, true, locked;
    ReduceDefaultCrashLoopBackOffDecay: Alpha, false;
    RelaxedDNSSearchValidation: Ga, true, locked;
    RelaxedEnvironmentVariableValidation: Ga, true, locked;
    RelaxedServiceNameValidation: Beta, true;
    ReloadKubeletClientCAFile: Beta, true;
    ReloadKubeletServerCertificateFile: Beta, true;
    RemoteRequestHeaderUID: Beta, true;
    ResilientWatchCacheInitialization: Ga, true, locked;
    ResourceHealthStatus: Beta, true, needs DynamicResourceAllocation;
    ResourceHealthStatusMessage: Beta, true, needs ResourceHealthStatus;
    RestartAllContainersOnContainerExits: Beta, true, needs ContainerRestartRules NodeDeclaredFeatures;
    RetryGenerateName: Ga, true, locked;
    RotateKubeletServerCertificate: Beta, true;
    RuntimeClassInImageCriApi: Alpha, false;
    SELinuxChangePolicy: Ga, true, locked;
    SELinuxMount: Beta, false;
    SELinuxMountReadWriteOncePod: Ga, true, locked;
    SchedulerAsyncAPICalls: Beta, false;
    SchedulerAsyncPreemption: Beta, true;
    SchedulerPopFromBackoffQ: Beta, true;
    SchedulerQueueingHints: Ga, true, locked;
    SeparateCacheWatchRPC: Deprecated, false, locked;
    SeparateTaintEvictionController: Ga, true, locked;
    ServiceAccountNodeAudienceRestriction: Beta, true;
    ServiceAccountTokenJTI: Ga, true, locked;
    ServiceAccountTokenNodeBinding: Ga, true, locked, needs ServiceAccountTokenNodeBindingValidation;
    ServiceAccountTokenNodeBindingValidation: Ga, true, locked;
    ServiceAccountTokenPodNodeInfo: Ga, true, locked;
    ServiceCIDRStatusFieldWiping: Deprecated, true;
    ShardedListAndWatch: Alpha, false;
    SidecarContainers: Ga, true, locked;
    SizeBasedListCostEstimate: Beta, true;
    StaleControllerConsistencyDaemonSet: Beta, true, needs AtomicFIFO;
    StaleControllerConsistencyJob: Beta, true, needs AtomicFIFO;
    StaleControllerConsistencyReplicaSet: Beta, true, needs AtomicFIFO;
    StaleControllerConsistencyStatefulSet: Beta, true, needs AtomicFIFO;
    StatefulSetSemanticRevisionComparison: Beta, true;
    StorageCapacityScoring: Alpha, false;
    StorageNamespaceIndex: Deprecated, true;
    StorageVersionAPI: Alpha, false, needs APIServerIdentity;
    StorageVersionHash: Beta, true;
    StorageVersionMigrator: Beta, false;
    StreamingCollectionEncodingToJSON: Ga, true, locked;
    StreamingCollectionEncodingToProtobuf: Ga, true, locked;
    StrictIPCIDRValidation: Beta, true;
    StructuredAuthenticationConfiguration: Ga, true, locked;
    StructuredAuthenticationConfigurationEgressSelector: Beta, true, needs StructuredAuthenticationConfiguration;
    StructuredAuthenticationConfigurationJWKSMetrics: Beta, true, needs StructuredAuthenticationConfiguration;
    SupplementalGroupsPolicy: Ga, true, locked;
    SystemdWatchdog: Ga, true, locked;
    TaintTolerationComparisonOperators: Alpha, false;
    TokenRequestServiceAccountUIDValidation: Beta, true;
    TopologyAwareWorkloadScheduling: Alpha, false, needs GenericWorkload;
    TopologyManagerPolicyAlphaOptions: Alpha, false;
    TopologyManagerPolicyBetaOptions: Beta, true;
    TopologyManagerPolicyOptions: Ga, true, locked;
    TranslateStreamCloseWebsocketRequests: Beta, true;
    UnauthenticatedHTTP2DOSMitigation: Beta, true;
    UnknownVersionInteroperabilityProxy: Beta, true, needs APIServerIdentity;
    UnlockWhileProcessingFIFO: Beta, true;
    UserNamespacesHostNetworkSupport: Alpha, false, needs NodeDeclaredFeatures UserNamespacesSupport;
    UserNamespacesSupport: Ga, true, locked;
    VolumeAttributesClass: Ga, true, locked;
    VolumeLimitScaling: Alpha, false;
    WatchCacheInitializationPostStartHook: Beta, true;
    WatchList: Beta, true;
    WatchListClient: Beta, true;
    WinDSR: Ga, true, locked;
    WinOverlay: Ga, true, locked;
    WindowsCPUAndMemoryAffinity: Alpha, false;
    WindowsGracefulNodeShutdown: Beta, true, needs GracefulNodeShutdown;
    WindowsHostNetwork: Deprecated, false;
    WorkloadAwarePreemption: Alpha, false, needs GangScheduling;
    WorkloadWithJob: Alpha, false, needs GenericWorkload;
}
