package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// undecided stands in the configuration for the server's own authenticator and authorizer.
type undecided struct{}

func (undecided) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, nil
}

func (undecided) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (undecided) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, true, nil
}

// authenticateBy has the program ask a test's own authenticator, as a webhook.
func authenticateBy(t testing.TB, opts *options.ServerRunOptions, dir string, a authenticator.Request) {
	opts.Authentication.WebHook.Version = "v1"
	opts.Authentication.WebHook.CacheTTL = 0
	opts.Authentication.WebHook.ConfigFile = webhook(t, dir, "authentication", func(review *authenticationv1.TokenReview) {
		req, err := http.NewRequest("GET", "/", nil)
		if err != nil {
			review.Status.Error = err.Error()
			return
		}
		req.Header.Set("Authorization", "Bearer "+review.Spec.Token)
		if len(review.Spec.Audiences) > 0 {
			req = req.WithContext(authenticator.WithAudiences(req.Context(), review.Spec.Audiences))
		}
		resp, ok, err := a.AuthenticateRequest(req)
		switch {
		case err != nil:
			review.Status.Error = err.Error()
		case ok:
			review.Status.Authenticated = true
			review.Status.Audiences = review.Spec.Audiences
			review.Status.User = authenticationv1.UserInfo{Username: resp.User.GetName(), UID: resp.User.GetUID(), Groups: resp.User.GetGroups()}
			if extra := resp.User.GetExtra(); len(extra) > 0 {
				review.Status.User.Extra = map[string]authenticationv1.ExtraValue{}
				for key, values := range extra {
					review.Status.User.Extra[key] = values
				}
			}
		}
	})
}

// authorizeBy has the program ask a test's own authorizer first, as a webhook.
func authorizeBy(t testing.TB, opts *options.ServerRunOptions, dir string, a authorizer.Authorizer) {
	opts.Authorization.Modes = append([]string{"Webhook"}, opts.Authorization.Modes...)
	opts.Authorization.WebhookVersion = "v1"
	opts.Authorization.WebhookCacheAuthorizedTTL, opts.Authorization.WebhookCacheUnauthorizedTTL = 0, 0
	opts.Authorization.WebhookConfigFile = webhook(t, dir, "authorization", func(review *authorizationv1.SubjectAccessReview) {
		decision, reason, err := a.Authorize(context.Background(), attributes(&review.Spec))
		review.Status = authorizationv1.SubjectAccessReviewStatus{Reason: reason,
			Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny}
		if err != nil {
			review.Status.EvaluationError = err.Error()
		}
	})
}

// attributes are the request that a review is about.
func attributes(spec *authorizationv1.SubjectAccessReviewSpec) authorizer.Attributes {
	requester := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if len(spec.Extra) > 0 {
		requester.Extra = map[string][]string{}
		for key, values := range spec.Extra {
			requester.Extra[key] = values
		}
	}
	if n := spec.NonResourceAttributes; n != nil {
		return authorizer.AttributesRecord{User: requester, Verb: n.Verb, Path: n.Path}
	}
	r := spec.ResourceAttributes
	record := authorizer.AttributesRecord{User: requester, ResourceRequest: true, Verb: r.Verb, Namespace: r.Namespace, APIGroup: r.Group,
		APIVersion: r.Version, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name}
	if s := r.FieldSelector; s != nil {
		for _, q := range s.Requirements {
			switch q.Operator {
			case metav1.FieldSelectorOpIn:
				record.FieldSelectorRequirements = append(record.FieldSelectorRequirements, fields.Requirement{Operator: "=", Field: q.Key, Value: q.Values[0]})
			case metav1.FieldSelectorOpNotIn:
				record.FieldSelectorRequirements = append(record.FieldSelectorRequirements, fields.Requirement{Operator: "!=", Field: q.Key, Value: q.Values[0]})
			}
		}
	}
	if s := r.LabelSelector; s != nil {
		if selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.Requirements}); err == nil {
			record.LabelSelectorRequirements, _ = selector.Requirements()
		}
	}
	return record
}

// webhook has answer fill in reviews on a port of this process, and returns the kubeconfig that leads there.
func webhook[Review any](t testing.TB, dir, name string, answer func(*Review)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		review := new(Review)
		if err == nil {
			err = json.Unmarshal(body, review)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(review)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.CloseClientConnections)
	file := filepath.Join(dir, name+".kubeconfig")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],
"users":[{"name":"u","user":{}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, server.URL)), 0o600))
	return file
}
