// Package harness runs real clients against a server of this machine. What it needs of the machine
// (programs, kernel modules, privileges) it asks for first and names what is missing.
package harness
