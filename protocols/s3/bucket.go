package s3

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/spokefs/spokefs/fabric"
)

// Attributes of a bucket, kept on its root directory.
const (
	aclXattr  = "user.spokefs.s3.acl"
	tagsXattr = "user.spokefs.s3.tags"
)

// ListBuckets implements backend.Backend.
func (s *store) ListBuckets(ctx context.Context, in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	out := s3response.ListAllMyBucketsResult{Owner: s3response.CanonicalUser{ID: in.Owner}, Prefix: in.Prefix}
	for _, name := range s.portals.Names() {
		if !strings.HasPrefix(name, in.Prefix) || name <= in.ContinuationToken {
			continue
		}
		v, err := s.open(ctx, name)
		if err != nil {
			continue // not for this caller
		}
		if len(out.Buckets.Bucket) == int(in.MaxBuckets) {
			out.ContinuationToken = out.Buckets.Bucket[len(out.Buckets.Bucket)-1].Name
			break
		}
		a, err := v.Stat(ctx, v.Root())
		if err != nil {
			return out, failed(err)
		}
		out.Buckets.Bucket = append(out.Buckets.Bucket, s3response.ListAllMyBucketsEntry{Name: name, CreationDate: wall(a.Btime)})
	}
	return out, nil
}

// wall is a file's time as S3 shows it, in whole seconds.
func wall(t fabric.Time) time.Time { return time.Unix(0, int64(t)).UTC().Truncate(time.Second) }

// HeadBucket implements backend.Backend.
func (s *store) HeadBucket(ctx context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	if _, err := s.open(ctx, str(in.Bucket)); err != nil {
		return nil, err
	}
	return &s3.HeadBucketOutput{}, nil
}

// CreateBucket implements backend.Backend.
func (s *store) CreateBucket(ctx context.Context, in *s3.CreateBucketInput, acl []byte) error {
	name := str(in.Bucket)
	if s.buckets == nil {
		return s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	if err := s.buckets.CreateBucket(ctx, strings.Clone(name), cred(ctx)); err != nil {
		if errors.Is(err, fabric.Exist) {
			return s3err.GetBucketErr(s3err.ErrBucketAlreadyOwnedByYou, name)
		}
		return failed(err)
	}
	v, err := s.open(ctx, name)
	if err != nil {
		return err
	}
	return failed(v.asRoot().SetXattr(ctx, v.Root(), aclXattr, acl, fabric.XattrAny))
}

// DeleteBucket implements backend.Backend.
func (s *store) DeleteBucket(ctx context.Context, bucket string) error {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	if s.buckets == nil {
		return s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	page, err := v.list(ctx, listing{max: 1})
	if err != nil {
		return err
	}
	if len(page.objects) > 0 {
		return s3err.GetBucketErr(s3err.ErrBucketNotEmpty, bucket)
	}
	return failed(s.buckets.DeleteBucket(ctx, strings.Clone(bucket)))
}

// rootValue reads an attribute of a bucket's root; nil if it has none.
func (s *store) rootValue(ctx context.Context, bucket, name string) ([]byte, error) {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	n, err := v.Xattr(ctx, v.Root(), name, nil)
	if errors.Is(err, fabric.NoXattr) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	p := make([]byte, n)
	n, err = v.Xattr(ctx, v.Root(), name, p)
	return p[:n], failed(err)
}

// GetBucketAcl implements backend.Backend. The gateway asks for it with every request.
func (s *store) GetBucketAcl(ctx context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	return s.rootValue(ctx, str(in.Bucket), aclXattr)
}

// PutBucketAcl implements backend.Backend.
func (s *store) PutBucketAcl(ctx context.Context, bucket string, data []byte) error {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	return failed(v.SetXattr(ctx, v.Root(), aclXattr, data, fabric.XattrAny))
}

// What follows is not kept by spokefs: there is none, which is what each of these says.

// GetBucketVersioning implements backend.Backend.
func (s *store) GetBucketVersioning(ctx context.Context, bucket string) (s3response.GetBucketVersioningOutput, error) {
	_, err := s.open(ctx, bucket)
	return s3response.GetBucketVersioningOutput{}, err
}

// GetBucketPolicy implements backend.Backend.
func (s *store) GetBucketPolicy(ctx context.Context, bucket string) ([]byte, error) {
	if _, err := s.open(ctx, bucket); err != nil {
		return nil, err
	}
	return nil, s3err.GetBucketErr(s3err.ErrNoSuchBucketPolicy, bucket)
}

// GetBucketCors implements backend.Backend.
func (s *store) GetBucketCors(ctx context.Context, bucket string) ([]byte, error) {
	if _, err := s.open(ctx, bucket); err != nil {
		return nil, err
	}
	return nil, s3err.GetBucketErr(s3err.ErrNoSuchCORSConfiguration, bucket)
}

// GetBucketWebsite implements backend.Backend.
func (s *store) GetBucketWebsite(ctx context.Context, bucket string) ([]byte, error) {
	if _, err := s.open(ctx, bucket); err != nil {
		return nil, err
	}
	return nil, s3err.GetBucketErr(s3err.ErrNoSuchWebsiteConfiguration, bucket)
}

// GetObjectLockConfiguration implements backend.Backend.
func (s *store) GetObjectLockConfiguration(ctx context.Context, bucket string) ([]byte, error) {
	if _, err := s.open(ctx, bucket); err != nil {
		return nil, err
	}
	return nil, s3err.GetBucketErr(s3err.ErrObjectLockConfigurationNotFound, bucket)
}

// GetBucketOwnershipControls implements backend.Backend. Owners are the files' own.
func (s *store) GetBucketOwnershipControls(ctx context.Context, bucket string) (types.ObjectOwnership, error) {
	_, err := s.open(ctx, bucket)
	return types.ObjectOwnershipBucketOwnerEnforced, err
}

// GetBucketTagging implements backend.Backend.
func (s *store) GetBucketTagging(ctx context.Context, bucket string) (map[string]string, error) {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	var tags map[string]string
	ok, err := v.load(ctx, v.Root(), tagsXattr, &tags)
	if err == nil && !ok {
		err = s3err.GetBucketErr(s3err.ErrBucketTaggingNotFound, bucket)
	}
	return tags, err
}

// PutBucketTagging implements backend.Backend; nil removes the tags.
func (s *store) PutBucketTagging(ctx context.Context, bucket string, tags map[string]string) error {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	if tags != nil {
		return v.save(ctx, v.Root(), tagsXattr, tags)
	}
	if err := v.RemoveXattr(ctx, v.Root(), tagsXattr); err != nil && !errors.Is(err, fabric.NoXattr) {
		return failed(err)
	}
	return nil
}

// DeleteBucketTagging implements backend.Backend.
func (s *store) DeleteBucketTagging(ctx context.Context, bucket string) error {
	return s.PutBucketTagging(ctx, bucket, nil)
}

// retag changes an object's tags.
func (s *store) retag(ctx context.Context, bucket, key string, tags map[string]string) error {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return err
	}
	_, a, err := v.find(ctx, key)
	if err != nil {
		return err
	}
	var m meta
	if _, err := v.load(ctx, a.Ino, metaXattr, &m); err != nil {
		return err
	}
	m.Tags = tags
	return v.save(ctx, a.Ino, metaXattr, m)
}

// PutObjectTagging implements backend.Backend.
func (s *store) PutObjectTagging(ctx context.Context, bucket, key, _ string, tags map[string]string) error {
	return s.retag(ctx, bucket, key, tags)
}

// DeleteObjectTagging implements backend.Backend.
func (s *store) DeleteObjectTagging(ctx context.Context, bucket, key, _ string) error {
	return s.retag(ctx, bucket, key, nil)
}

// GetObjectTagging implements backend.Backend.
func (s *store) GetObjectTagging(ctx context.Context, bucket, key, _ string) (map[string]string, error) {
	v, err := s.open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	_, a, err := v.find(ctx, key)
	if err != nil {
		return nil, err
	}
	var m meta
	if _, err := v.load(ctx, a.Ino, metaXattr, &m); err != nil {
		return nil, err
	}
	return m.Tags, nil
}

// GetObjectAcl implements backend.Backend: the owner has all, and there is no more to it.
func (s *store) GetObjectAcl(ctx context.Context, in *s3.GetObjectAclInput) (*s3.GetObjectAclOutput, error) {
	v, err := s.open(ctx, str(in.Bucket))
	if err != nil {
		return nil, err
	}
	if _, _, err := v.find(ctx, str(in.Key)); err != nil {
		return nil, err
	}
	owner := aws.String(account(ctx).Access)
	return &s3.GetObjectAclOutput{
		Owner:  &types.Owner{ID: owner},
		Grants: []types.Grant{{Grantee: &types.Grantee{ID: owner, Type: types.TypeCanonicalUser}, Permission: types.PermissionFullControl}},
	}, nil
}
