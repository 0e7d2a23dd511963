package node

import "github.com/spokefs/spokefs/fabric"

func (f *fronts) startNFS(cfg NFSConfig, portals fabric.Portals) error { return nil }
