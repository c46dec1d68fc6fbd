//! Feature gates of Kubernetes, with stage and default from each version on.

use crate::{Gate, GateEffect::*, GateSpec, GateState::*, MajorMinor, Maturity::*};

/// Makes [`Feature`] and the table of its gates out of one list.
macro_rules! features {
    ($($name:ident, $effect:ident: $($stage:ident $minor:literal $state:ident),+ $(needs $($needed:ident)+)?;)*) => {
        /// Feature that can be switched, by the name of its gate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $(#[doc = concat!("`", stringify!($name), "`")] $name,)*
        }

        /// Every gate but the two that switch many, in the order of the features.
        pub(crate) static KNOWN: &[Gate] = &[
            $(Gate {
                feature: Feature::$name,
                name: stringify!($name),
                effect: $effect,
                specs: &[$(GateSpec { since: MajorMinor(1, $minor), stage: $stage, state: $state }),+],
                needs: &[$($(Feature::$needed),+)?],
            },)*
        ];
    };
}

// Sorted by name: effect in this server; stage, minor version and state, as often as one of them changes.
features! {
    APIResponseCompression, Honoured: Alpha 8 Off, Beta 16 On;
    APIServerIdentity, Honoured: Alpha 20 Off, Beta 26 On;
    APIServerTracing, AlwaysOn: Alpha 22 Off, Beta 27 On, Ga 34 LockedOn;
    APIServingWithRoutine, Internal: Alpha 30 Off;
    AggregatedDiscoveryRemoveBetaType, AlwaysOn: Ga 0 Off, Deprecated 33 On, Deprecated 35 LockedOn;
    AllowDNSOnlyNodeCSR, Elsewhere: Ga 0 On, Deprecated 31 Off;
    AllowInsecureKubeletCertificateSigningRequests, Honoured: Ga 0 On, Deprecated 31 Off;
    AllowOverwriteTerminationGracePeriodSeconds, Elsewhere: Ga 0 On, Deprecated 32 Off, Deprecated 35 LockedOff;
    AllowParsingUserUIDFromCertAuth, Honoured: Beta 33 On;
    AllowServiceExternalIPs, Elsewhere: Ga 0 On;
    AllowUnsafeMalformedObjectDeletion, Honoured: Alpha 32 Off;
    AnonymousAuthConfigurableEndpoints, AlwaysOn: Alpha 31 Off, Beta 32 On, Ga 34 LockedOn;
    AnyVolumeDataSource, AlwaysOn: Alpha 18 Off, Beta 24 On, Ga 33 LockedOn;
    AtomicFIFO, Internal: Beta 36 On;
    AuthorizeNodeWithSelectors, AlwaysOn: Alpha 31 Off, Beta 32 On, Ga 34 LockedOn needs AuthorizeWithSelectors;
    AuthorizePodWebsocketUpgradeCreatePermission, Honoured: Beta 35 On;
    AuthorizeWithSelectors, AlwaysOn: Alpha 31 Off, Beta 32 On, Ga 34 LockedOn;
    BtreeWatchCache, Internal: Beta 32 On, Ga 33 LockedOn;
    CBORServingAndStorage, Honoured: Alpha 32 Off;
    CPUManagerPolicyAlphaOptions, Elsewhere: Alpha 23 Off;
    CPUManagerPolicyBetaOptions, Elsewhere: Beta 23 On;
    CPUManagerPolicyOptions, Elsewhere: Alpha 22 Off, Beta 23 On, Ga 33 LockedOn;
    CRDObservedGenerationTracking, Honoured: Beta 35 Off, Beta 36 On;
    CRDValidationRatcheting, AlwaysOn: Alpha 28 Off, Beta 30 On, Ga 33 LockedOn;
    CRIListStreaming, Elsewhere: Alpha 36 Off;
    CSIServiceAccountTokenSecrets, Honoured: Beta 35 On, Ga 36 LockedOn;
    CSIVolumeHealth, Elsewhere: Alpha 21 Off;
    ChangeContainerStatusOnKubeletRestart, Elsewhere: Ga 0 On, Deprecated 35 Off;
    ClearingNominatedNodeNameAfterBinding, Honoured: Alpha 34 Off, Beta 35 On;
    ClientsAllowCARotation, Internal: Beta 36 On;
    ClientsAllowCBOR, Internal: Alpha 32 Off;
    ClientsAllowTLSCacheGC, Internal: Beta 36 On;
    ClientsPreferCBOR, Internal: Alpha 32 Off;
    CloudControllerManagerWatchBasedRoutesReconciliation, Elsewhere: Alpha 35 Off;
    CloudControllerManagerWebhook, Elsewhere: Alpha 27 Off;
    ClusterTrustBundle, Honoured: Alpha 27 Off, Beta 33 Off;
    ClusterTrustBundleProjection, Honoured: Alpha 29 Off, Beta 33 Off needs ClusterTrustBundle;
    ComponentFlagz, Honoured: Alpha 32 Off, Beta 36 On;
    ComponentStatusz, Honoured: Alpha 32 Off, Beta 36 On;
    ConcurrentWatchObjectDecode, Internal: Beta 31 Off;
    ConsistentListFromCache, Internal: Alpha 28 Off, Beta 31 On, Ga 34 LockedOn;
    ConstrainedImpersonation, Honoured: Alpha 35 Off, Beta 36 On;
    ContainerCheckpoint, Elsewhere: Alpha 25 Off, Beta 30 On;
    ContainerRestartRules, Honoured: Alpha 34 Off, Beta 35 On;
    ContainerStopSignals, Honoured: Alpha 33 Off;
    ContextualLogging, Internal: Alpha 24 Off, Beta 30 On;
    ControllerManagerReleaseLeaderElectionLockOnExit, Elsewhere: Alpha 36 Off;
    CoordinatedLeaderElection, Honoured: Alpha 31 Off, Beta 33 Off;
    CrossNamespaceVolumeDataSource, Honoured: Alpha 26 Off;
    CustomCPUCFSQuotaPeriod, Elsewhere: Alpha 12 Off, Ga 36 On;
    CustomResourceFieldSelectors, AlwaysOn: Alpha 30 Off, Beta 31 On, Ga 32 LockedOn;
    DRAAdminAccess, Honoured: Alpha 32 Off, Beta 34 On, Ga 36 LockedOn needs DynamicResourceAllocation;
    DRAConsumableCapacity, Honoured: Alpha 34 Off, Beta 36 On needs DynamicResourceAllocation;
    DRADeviceBindingConditions, Honoured: Alpha 34 Off, Beta 36 On needs DRAResourceClaimDeviceStatus DynamicResourceAllocation;
    DRADeviceTaintRules, Elsewhere: Alpha 35 Off, Beta 36 Off needs DRADeviceTaints;
    DRADeviceTaints, Honoured: Alpha 33 Off, Beta 36 On needs DynamicResourceAllocation;
    DRAExtendedResource, Honoured: Alpha 34 Off, Beta 36 On needs DynamicResourceAllocation;
    DRAListTypeAttributes, Honoured: Alpha 36 Off needs DynamicResourceAllocation;
    DRANodeAllocatableResources, Honoured: Alpha 36 Off needs DynamicResourceAllocation;
    DRAPartitionableDevices, Honoured: Alpha 33 Off, Beta 36 On needs DynamicResourceAllocation;
    DRAPrioritizedList, Honoured: Alpha 33 Off, Beta 34 On, Ga 36 On needs DynamicResourceAllocation;
    DRAResourceClaimDeviceStatus, Honoured: Alpha 32 Off, Beta 33 On;
    DRAResourceClaimGranularStatusAuthorization, Honoured: Beta 36 On needs DRAResourceClaimDeviceStatus DynamicResourceAllocation;
    DRAResourcePoolStatus, Honoured: Alpha 36 Off needs DynamicResourceAllocation;
    DRASchedulerFilterTimeout, Elsewhere: Beta 34 On needs DynamicResourceAllocation;
    DRAWorkloadResourceClaims, Honoured: Alpha 36 Off needs DynamicResourceAllocation GenericWorkload;
    DeclarativeValidation, Internal: Beta 33 On, Ga 36 LockedOn;
    DeclarativeValidationBeta, Internal: Beta 36 On needs DeclarativeValidation;
    DeclarativeValidationTakeover, Internal: Beta 33 Off, Deprecated 36 Off needs DeclarativeValidation;
    DeploymentReplicaSetTerminatingReplicas, Honoured: Alpha 33 Off, Beta 35 On;
    DetectCacheInconsistency, Internal: Beta 34 On;
    DisableAllocatorDualWrite, Honoured: Alpha 31 Off, Beta 33 Off, Ga 34 On, Ga 35 LockedOn needs MultiCIDRServiceAllocator;
    DisableCPUQuotaWithExclusiveCPUs, Elsewhere: Beta 33 On, Deprecated 36 On;
    DisableNodeKubeProxyVersion, Elsewhere: Alpha 29 Off, Deprecated 31 Off, Deprecated 33 On, Deprecated 36 LockedOn;
    DynamicResourceAllocation, Honoured: Alpha 26 Off, Beta 32 Off, Ga 34 On, Ga 35 LockedOn;
    EnvFiles, Honoured: Alpha 34 Off, Beta 35 On;
    EventedPLEG, Elsewhere: Alpha 26 Off;
    ExecProbeTimeout, Elsewhere: Ga 20 On, Ga 35 LockedOn;
    ExtendWebSocketsToKubelet, Honoured: Beta 36 On needs NodeDeclaredFeatures;
    ExternalServiceAccountTokenSigner, Honoured: Alpha 32 Off, Beta 34 On, Ga 36 LockedOn;
    GangScheduling, Elsewhere: Alpha 35 Off needs GenericWorkload;
    GenericWorkload, Honoured: Alpha 35 Off;
    GitRepoVolumeDriver, AlwaysOff: Ga 0 On, Deprecated 33 Off, Deprecated 36 LockedOff;
    GracefulNodeShutdown, Elsewhere: Alpha 20 Off, Beta 21 On;
    GracefulNodeShutdownBasedOnPodPriority, Elsewhere: Alpha 23 Off, Beta 24 On needs GracefulNodeShutdown;
    HPAConfigurableTolerance, Honoured: Alpha 33 Off, Beta 35 On;
    HPAScaleToZero, Honoured: Alpha 16 Off;
    HostnameOverride, Honoured: Alpha 34 Off, Beta 35 On;
    ImageMaximumGCAge, Elsewhere: Alpha 29 Off, Beta 30 On, Ga 35 LockedOn;
    ImageVolume, Honoured: Alpha 31 Off, Beta 33 Off, Beta 35 On, Ga 36 LockedOn;
    ImageVolumeWithDigest, Honoured: Alpha 35 Off needs ImageVolume;
    InOrderInformers, Internal: Beta 33 On, Ga 36 LockedOn;
    InOrderInformersBatchProcess, Internal: Beta 35 On;
    InPlacePodLevelResourcesVerticalScaling, Honoured: Alpha 35 Off, Beta 36 On needs InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources;
    InPlacePodVerticalScaling, AlwaysOn: Alpha 27 Off, Beta 33 On, Ga 35 LockedOn;
    InPlacePodVerticalScalingExclusiveCPUs, Elsewhere: Alpha 32 Off needs InPlacePodVerticalScaling;
    InPlacePodVerticalScalingExclusiveMemory, Elsewhere: Alpha 34 Off needs InPlacePodVerticalScaling;
    InPlacePodVerticalScalingInitContainers, Honoured: Beta 36 On needs InPlacePodVerticalScaling NodeDeclaredFeatures;
    InformerResourceVersion, Internal: Alpha 30 Off, Ga 35 On;
    JobBackoffLimitPerIndex, AlwaysOn: Alpha 28 Off, Beta 29 On, Ga 33 LockedOn;
    JobManagedBy, AlwaysOn: Alpha 30 Off, Beta 32 On, Ga 35 LockedOn;
    JobPodReplacementPolicy, Honoured: Alpha 28 Off, Beta 29 On, Ga 34 LockedOn;
    JobSuccessPolicy, AlwaysOn: Alpha 30 Off, Beta 31 On, Ga 33 LockedOn;
    KMSv1, Honoured: Ga 0 On, Deprecated 28 On, Deprecated 29 Off;
    KubeletCgroupDriverFromCRI, Elsewhere: Alpha 28 Off, Beta 31 On, Ga 34 LockedOn;
    KubeletCrashLoopBackOffMax, Elsewhere: Alpha 32 Off, Beta 35 On;
    KubeletEnsureSecretPulledImages, Elsewhere: Alpha 33 Off, Beta 35 On;
    KubeletFineGrainedAuthz, Elsewhere: Alpha 32 Off, Beta 33 On, Ga 36 LockedOn;
    KubeletInUserNamespace, Elsewhere: Alpha 22 Off;
    KubeletPSI, Elsewhere: Alpha 33 Off, Beta 34 On, Ga 36 LockedOn;
    KubeletPodResourcesDynamicResources, Elsewhere: Alpha 27 Off, Beta 34 On, Ga 36 LockedOn;
    KubeletPodResourcesGet, Elsewhere: Alpha 27 Off, Beta 34 On, Ga 36 LockedOn;
    KubeletPodResourcesListUseActivePods, Elsewhere: Ga 0 Off, Deprecated 34 On;
    KubeletRegistrationGetOnExistsOnly, Elsewhere: Ga 0 On, Deprecated 32 Off;
    KubeletSeparateDiskGC, Elsewhere: Alpha 29 Off, Beta 31 On;
    KubeletServiceAccountTokenForCredentialProviders, Honoured: Alpha 33 Off, Beta 34 On;
    KubeletTracing, Elsewhere: Alpha 25 Off, Beta 27 On, Ga 34 LockedOn;
    ListFromCacheSnapshot, Internal: Alpha 33 Off, Beta 34 On;
    LocalStorageCapacityIsolationFSQuotaMonitoring, Elsewhere: Alpha 15 Off, Beta 31 Off;
    LogarithmicScaleDown, Elsewhere: Alpha 21 Off, Beta 22 On, Ga 31 LockedOn;
    LoggingAlphaOptions, Honoured: Alpha 24 Off;
    LoggingBetaOptions, Honoured: Beta 24 On;
    ManifestBasedAdmissionControlConfig, Honoured: Alpha 36 Off;
    MatchLabelKeysInPodAffinity, AlwaysOn: Alpha 29 Off, Beta 31 On, Ga 33 LockedOn;
    MatchLabelKeysInPodTopologySpread, Honoured: Alpha 25 Off, Beta 27 On;
    MatchLabelKeysInPodTopologySpreadSelectorMerge, Honoured: Beta 34 On needs MatchLabelKeysInPodTopologySpread;
    MaxUnavailableStatefulSet, Honoured: Alpha 24 Off, Beta 35 Off;
    MemoryQoS, Elsewhere: Alpha 22 Off;
    MultiCIDRServiceAllocator, Honoured: Alpha 27 Off, Beta 31 Off, Ga 33 On, Ga 34 LockedOn;
    MutableCSINodeAllocatableCount, Honoured: Alpha 33 Off, Beta 34 Off, Beta 35 On, Ga 36 LockedOn;
    MutablePVNodeAffinity, Honoured: Alpha 35 Off;
    MutablePodResourcesForSuspendedJobs, Honoured: Alpha 35 Off, Beta 36 On;
    MutableSchedulingDirectivesForSuspendedJobs, Honoured: Alpha 35 Off, Beta 36 On;
    MutatingAdmissionPolicy, Honoured: Alpha 32 Off, Beta 34 Off, Ga 36 On;
    NFTablesProxyMode, Elsewhere: Alpha 29 Off, Beta 31 On, Ga 33 LockedOn;
    NativeHistograms, AlwaysOff: Alpha 36 Off;
    NodeDeclaredFeatures, Honoured: Alpha 35 Off, Beta 36 On;
    NodeInclusionPolicyInPodTopologySpread, AlwaysOn: Alpha 25 Off, Beta 26 On, Ga 33 LockedOn;
    NodeLogQuery, Elsewhere: Alpha 27 Off, Beta 30 Off, Ga 36 LockedOn;
    NodeSwap, Elsewhere: Alpha 22 Off, Beta 28 Off, Beta 30 On, Ga 34 LockedOn;
    NominatedNodeNameForExpectation, Elsewhere: Alpha 34 Off, Beta 35 On;
    OpenAPIEnums, Honoured: Alpha 23 Off, Beta 24 On;
    OpportunisticBatching, Elsewhere: Beta 35 On;
    OrderedNamespaceDeletion, Elsewhere: Beta 30 Off, Beta 33 On, Ga 34 LockedOn;
    PLEGOnDemandRelist, Elsewhere: Beta 36 On;
    PersistentVolumeClaimUnusedSinceTime, Honoured: Alpha 36 Off;
    PodAndContainerStatsFromCRI, Elsewhere: Alpha 23 Off;
    PodCertificateRequest, Honoured: Alpha 34 Off, Beta 35 Off needs AuthorizeNodeWithSelectors;
    PodDeletionCost, Honoured: Alpha 21 Off, Beta 22 On;
    PodLevelResourceManagers, Elsewhere: Alpha 36 Off needs PodLevelResources;
    PodLevelResources, Honoured: Alpha 32 Off, Beta 34 On;
    PodLifecycleSleepAction, Honoured: Alpha 29 Off, Beta 30 On, Ga 34 LockedOn;
    PodLifecycleSleepActionAllowZero, AlwaysOn: Alpha 32 Off, Beta 33 On, Ga 34 LockedOn needs PodLifecycleSleepAction;
    PodLogsQuerySplitStreams, Honoured: Alpha 32 Off;
    PodObservedGenerationTracking, Honoured: Alpha 33 Off, Beta 34 On, Ga 35 LockedOn;
    PodReadyToStartContainersCondition, Elsewhere: Alpha 28 Off, Beta 29 On;
    PodSchedulingReadiness, Elsewhere: Alpha 26 Off, Beta 27 On, Ga 30 LockedOn;
    PodTopologyLabelsAdmission, Honoured: Alpha 33 Off, Beta 35 On;
    PodsAPI, Elsewhere: Alpha 36 Off;
    PortForwardWebsockets, Honoured: Alpha 30 Off, Beta 31 On;
    PreferSameTrafficDistribution, AlwaysOn: Alpha 33 Off, Beta 34 On, Ga 35 LockedOn;
    PreventStaticPodAPIReferences, Elsewhere: Beta 34 On;
    ProcMountType, Honoured: Alpha 12 Off, Beta 31 Off, Beta 33 On, Ga 36 LockedOn needs UserNamespacesSupport;
    QOSReserved, Elsewhere: Alpha 11 Off;
    RecoverVolumeExpansionFailure, AlwaysOn: Alpha 23 Off, Beta 32 On, Ga 34 LockedOn;
    RecursiveReadOnlyMounts, AlwaysOn: Alpha 30 Off, Beta 31 On, Ga 33 LockedOn;
    ReduceDefaultCrashLoopBackOffDecay, Elsewhere: Alpha 33 Off;
    RelaxedDNSSearchValidation, AlwaysOn: Alpha 32 Off, Beta 33 On, Ga 34 LockedOn;
    RelaxedEnvironmentVariableValidation, AlwaysOn: Alpha 30 Off, Beta 32 On, Ga 34 LockedOn;
    RelaxedServiceNameValidation, Honoured: Alpha 34 Off, Beta 36 On;
    ReloadKubeletClientCAFile, Elsewhere: Beta 36 On;
    ReloadKubeletServerCertificateFile, Elsewhere: Beta 31 On;
    RemoteRequestHeaderUID, Honoured: Alpha 32 Off, Beta 33 On;
    ResilientWatchCacheInitialization, Internal: Beta 31 On, Ga 34 LockedOn;
    ResourceHealthStatus, Honoured: Alpha 31 Off, Beta 36 On needs DynamicResourceAllocation;
    ResourceHealthStatusMessage, Honoured: Beta 36 On needs ResourceHealthStatus;
    RestartAllContainersOnContainerExits, Honoured: Alpha 35 Off, Beta 36 On needs ContainerRestartRules NodeDeclaredFeatures;
    RetryGenerateName, AlwaysOn: Alpha 30 Off, Beta 31 On, Ga 32 LockedOn;
    RotateKubeletServerCertificate, Elsewhere: Alpha 7 Off, Beta 12 On;
    RuntimeClassInImageCriApi, Elsewhere: Alpha 29 Off;
    SELinuxChangePolicy, Honoured: Alpha 32 Off, Beta 33 On, Ga 36 LockedOn;
    SELinuxMount, Honoured: Alpha 30 Off, Beta 33 Off;
    SELinuxMountReadWriteOncePod, AlwaysOn: Alpha 25 Off, Beta 27 Off, Beta 28 On, Ga 36 LockedOn;
    SchedulerAsyncAPICalls, Elsewhere: Beta 34 Off;
    SchedulerAsyncPreemption, Elsewhere: Alpha 32 Off, Beta 33 On;
    SchedulerPopFromBackoffQ, Elsewhere: Beta 33 On;
    SchedulerQueueingHints, Elsewhere: Beta 28 Off, Beta 32 On, Ga 34 LockedOn;
    SeparateCacheWatchRPC, Internal: Beta 28 On, Deprecated 33 Off, Deprecated 36 LockedOff;
    SeparateTaintEvictionController, Elsewhere: Beta 29 On, Ga 34 LockedOn;
    ServiceAccountNodeAudienceRestriction, Honoured: Beta 32 Off, Beta 33 On;
    ServiceAccountTokenJTI, AlwaysOn: Alpha 29 Off, Beta 30 On, Ga 32 LockedOn;
    ServiceAccountTokenNodeBinding, AlwaysOn: Alpha 29 Off, Beta 31 On, Ga 33 LockedOn needs ServiceAccountTokenNodeBindingValidation;
    ServiceAccountTokenNodeBindingValidation, AlwaysOn: Alpha 29 Off, Beta 30 On, Ga 32 LockedOn;
    ServiceAccountTokenPodNodeInfo, AlwaysOn: Alpha 29 Off, Beta 30 On, Ga 32 LockedOn;
    ServiceCIDRStatusFieldWiping, AlwaysOn: Ga 0 Off, Deprecated 36 On;
    ShardedListAndWatch, Honoured: Alpha 36 Off;
    SidecarContainers, AlwaysOn: Alpha 28 Off, Beta 29 On, Ga 33 LockedOn;
    SizeBasedListCostEstimate, Honoured: Beta 34 On;
    StaleControllerConsistencyDaemonSet, Elsewhere: Beta 36 On needs AtomicFIFO;
    StaleControllerConsistencyJob, Elsewhere: Beta 36 On needs AtomicFIFO;
    StaleControllerConsistencyReplicaSet, Elsewhere: Beta 36 On needs AtomicFIFO;
    StaleControllerConsistencyStatefulSet, Elsewhere: Beta 36 On needs AtomicFIFO;
    StatefulSetSemanticRevisionComparison, Elsewhere: Beta 0 On;
    StorageCapacityScoring, Elsewhere: Alpha 33 Off;
    StorageNamespaceIndex, Internal: Beta 30 On, Deprecated 33 On;
    StorageVersionAPI, Honoured: Alpha 20 Off needs APIServerIdentity;
    StorageVersionHash, Honoured: Alpha 14 Off, Beta 15 On;
    StorageVersionMigrator, Honoured: Alpha 30 Off, Beta 35 Off;
    StreamingCollectionEncodingToJSON, Internal: Beta 33 On, Ga 34 LockedOn;
    StreamingCollectionEncodingToProtobuf, Internal: Beta 33 On, Ga 34 LockedOn;
    StrictIPCIDRValidation, Honoured: Alpha 33 Off, Beta 36 On;
    StructuredAuthenticationConfiguration, Honoured: Alpha 29 Off, Beta 30 On, Ga 34 LockedOn;
    StructuredAuthenticationConfigurationEgressSelector, Honoured: Beta 34 On needs StructuredAuthenticationConfiguration;
    StructuredAuthenticationConfigurationJWKSMetrics, Honoured: Beta 35 On needs StructuredAuthenticationConfiguration;
    SupplementalGroupsPolicy, Honoured: Alpha 31 Off, Beta 33 On, Ga 35 LockedOn;
    SystemdWatchdog, Elsewhere: Beta 32 On, Ga 35 LockedOn;
    TaintTolerationComparisonOperators, Honoured: Alpha 35 Off;
    TokenRequestServiceAccountUIDValidation, Honoured: Beta 34 On;
    TopologyAwareWorkloadScheduling, Honoured: Alpha 36 Off needs GenericWorkload;
    TopologyManagerPolicyAlphaOptions, Elsewhere: Alpha 26 Off;
    TopologyManagerPolicyBetaOptions, Elsewhere: Beta 26 Off, Beta 28 On;
    TopologyManagerPolicyOptions, Elsewhere: Alpha 26 Off, Beta 28 On, Ga 32 LockedOn;
    TranslateStreamCloseWebsocketRequests, Honoured: Alpha 29 Off, Beta 30 On;
    UnauthenticatedHTTP2DOSMitigation, Honoured: Beta 25 Off, Beta 29 On;
    UnknownVersionInteroperabilityProxy, Honoured: Alpha 28 Off, Beta 36 On needs APIServerIdentity;
    UnlockWhileProcessingFIFO, Internal: Beta 36 On;
    UserNamespacesHostNetworkSupport, Honoured: Alpha 35 Off needs NodeDeclaredFeatures UserNamespacesSupport;
    UserNamespacesSupport, Honoured: Alpha 25 Off, Beta 30 Off, Beta 33 On, Ga 36 LockedOn;
    VolumeAttributesClass, Honoured: Alpha 29 Off, Beta 31 Off, Ga 34 On, Ga 36 LockedOn;
    VolumeLimitScaling, Honoured: Alpha 35 Off;
    WatchCacheInitializationPostStartHook, Honoured: Beta 31 Off, Beta 36 On;
    WatchList, Honoured: Alpha 27 Off, Beta 32 On, Beta 33 Off, Beta 34 On;
    WatchListClient, Internal: Beta 30 Off, Beta 35 On;
    WinDSR, Elsewhere: Alpha 14 Off, Beta 33 On, Ga 34 LockedOn;
    WinOverlay, Elsewhere: Alpha 14 Off, Beta 20 On, Ga 34 LockedOn;
    WindowsCPUAndMemoryAffinity, Elsewhere: Alpha 32 Off;
    WindowsGracefulNodeShutdown, Elsewhere: Alpha 32 Off, Beta 34 On needs GracefulNodeShutdown;
    WindowsHostNetwork, Elsewhere: Alpha 26 Off, Deprecated 33 Off;
    WorkloadAwarePreemption, Honoured: Alpha 36 Off needs GangScheduling;
    WorkloadWithJob, Elsewhere: Alpha 36 Off needs GenericWorkload;
}
