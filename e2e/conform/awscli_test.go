package conform

import (
	_ "embed"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spokefs/spokefs/e2e/harness"
)

//go:embed testdata/awscli.sh
var awscliScript string

// TestAWSCommandLine runs the AWS command line as people do: Debian's, and the first on PATH where
// that is another.
func TestAWSCommandLine(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and takes a while")
	}
	first, err := exec.LookPath("aws")
	if err != nil {
		harness.Lacking(t, err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		harness.Lacking(t, err)
	}
	all := []string{first}
	if _, err := os.Stat("/usr/bin/aws"); err == nil && first != "/usr/bin/aws" {
		all = append(all, "/usr/bin/aws")
	}
	h := startS3(t)
	for _, aws := range all {
		version, err := exec.Command(aws, "--version").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", aws, err, version)
		}
		t.Run(strings.Fields(string(version))[0], func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", awscliScript)
			cmd.Dir = t.TempDir()
			home := t.TempDir()
			cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AWS_") })
			cmd.Env = append(cmd.Env, "AWS="+aws, "ENDPOINT="+h.endpoint, "HOME="+home, "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=",
				"AWS_ACCESS_KEY_ID="+h.key.Access, "AWS_SECRET_ACCESS_KEY="+h.key.Secret, "AWS_DEFAULT_REGION=us-east-1")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "all is well\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
