// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/casper: who may open it may trace the kernel, one process at a time.
 * Its permissions govern that, as in Barkley and Schimmel 1988, together with
 * CAP_PERFMON, as for every other look at what all processes do.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kallsyms.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "internal.h"

#define REQUEST(number, type) \
	_IOC(_IOC_READ | _IOC_WRITE, CASPER_DEVICE_IOCTL, number, sizeof(type))

/* Events that a measurement of their cost may ask for. */
#define CALIBRATE_MAX 1000000

struct casper_reader {
	struct mutex lock;
	struct casper_core *core;	/* NULL before CASPER_SETUP */
};

static atomic_t device_users;

static int casper_open(struct inode *inode, struct file *file)
{
	struct casper_reader *cf;

	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) !=
	    (FMODE_READ | FMODE_WRITE))
		return -EINVAL;
	if (!perfmon_capable())
		return -EPERM;
	if (atomic_cmpxchg(&device_users, 0, 1))
		return -EBUSY;
	cf = kzalloc(sizeof(*cf), GFP_KERNEL_ACCOUNT);
	if (!cf) {
		atomic_set(&device_users, 0);
		return -ENOMEM;
	}
	mutex_init(&cf->lock);
	file->private_data = cf;
	return nonseekable_open(inode, file);
}

/* Also when the reader was killed: its mappings are gone by now. */
static int casper_release(struct inode *inode, struct file *file)
{
	struct casper_reader *cf = file->private_data;

	if (cf->core) {
		casper_core_turn(cf->core, false);
		casper_core_destroy(cf->core);
	}
	kfree(cf);
	atomic_set(&device_users, 0);
	return 0;
}

/* An instrumented function that does nothing, and an event of 24 bytes. */
static const struct casper_function empty_functions[] = {
	{ "casper_calibrate_empty", __LINE__ },
};
CASPER_UNIT_END(casper_calibrate, __FILE__, empty_functions)

static noinline void casper_calibrate_empty(void)
{
	CASPER_FUNCTION(casper_calibrate, 0);

	barrier();
}

static int calibrate(struct casper_core *core, u32 count)
{
	pid_t reader = core->reader;
	struct {
		casper_event_type event_type;
		u16 unused[3];
		u64 data[2];
	} event = { .event_type = 1 };
	u32 i;

	if (count > CALIBRATE_MAX)
		return -EINVAL;
	WRITE_ONCE(core->reader, 0);
	for (i = 0; i < count; i++)
		casrecord(&event, sizeof(event));
	for (i = 0; i < count; i++)
		casper_calibrate_empty();
	WRITE_ONCE(core->reader, reader);
	return 0;
}

static int casper_setup(struct casper_reader *cf, const struct cred *cred,
			void __user *argument)
{
	struct casper_setup setup;
	struct casper_core *core;

	if (cf->core)
		return -EBUSY;
	if (copy_from_user(&setup, argument, sizeof(setup)))
		return -EFAULT;
	core = casper_core_create(&setup, kallsyms_show_value(cred));
	if (IS_ERR(core))
		return PTR_ERR(core);
	core->reader = task_tgid_nr(current);
	cf->core = core;
	return copy_to_user(argument, &setup, sizeof(setup)) ? -EFAULT : 0;
}

static int casper_select(struct casper_reader *cf, void __user *argument)
{
	struct casper_select select;
	int err;

	if (copy_from_user(&select, argument, sizeof(select)))
		return -EFAULT;
	err = casper_core_select(cf->core, &select);
	if (err)
		return err;
	return copy_to_user(argument, &select, sizeof(select)) ? -EFAULT : 0;
}

static int casper_number(struct casper_reader *cf, unsigned int request,
			 u32 number)
{
	switch (request) {
	case REQUEST(CASPER_PROVIDE, u32):
		return casper_core_provide(cf->core, number);
	case REQUEST(CASPER_TURN, u32):
		if (number > CASPER_RECORDING)
			return -EINVAL;
		return casper_core_turn(cf->core, number == CASPER_RECORDING);
	case REQUEST(CASPER_CALIBRATE, u32):
		return calibrate(cf->core, number);
	default:
		return -ENOTTY;
	}
}

static long casper_ioctl(struct file *file, unsigned int request,
			 unsigned long argument)
{
	struct casper_reader *cf = file->private_data;
	void __user *user = (void __user *)argument;
	u32 number;
	long err;

	mutex_lock(&cf->lock);
	if (request == REQUEST(CASPER_SETUP, struct casper_setup))
		err = casper_setup(cf, file->f_cred, user);
	else if (!cf->core)
		err = -ENXIO;
	else if (request == REQUEST(CASPER_SELECT, struct casper_select))
		err = casper_select(cf, user);
	else if (_IOC_SIZE(request) != sizeof(number))
		err = -ENOTTY;
	else if (get_user(number, (u32 __user *)user))
		err = -EFAULT;
	else
		err = casper_number(cf, request, number);
	mutex_unlock(&cf->lock);
	return err;
}

static vm_fault_t casper_fault(struct vm_fault *vmf)
{
	struct casper_reader *cf = vmf->vma->vm_file->private_data;
	void *address = casper_core_address(cf->core,
					    (u64)vmf->pgoff << PAGE_SHIFT);

	if (!address)
		return VM_FAULT_SIGBUS;
	vmf->page = vmalloc_to_page(address);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct casper_vm_ops = {
	.fault = casper_fault,
};

static int casper_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct casper_reader *cf = file->private_data;
	struct casper_core *core = READ_ONCE(cf->core);
	u64 end = ((u64)vma->vm_pgoff << PAGE_SHIFT) +
		  (vma->vm_end - vma->vm_start);

	if (!core)
		return -ENXIO;
	if (!(vma->vm_flags & VM_SHARED) ||
	    end > PAGE_ALIGN(core->session_bytes))
		return -EINVAL;
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	vma->vm_ops = &casper_vm_ops;
	return 0;
}

static __poll_t casper_poll(struct file *file, poll_table *wait)
{
	struct casper_reader *cf = file->private_data;
	struct casper_core *core = READ_ONCE(cf->core);

	if (!core)
		return EPOLLERR;
	poll_wait(file, &core->waiters, wait);
	return atomic_xchg(&core->woken, 0) ? EPOLLIN | EPOLLRDNORM : 0;
}

static const struct file_operations casper_fops = {
	.owner = THIS_MODULE,
	.open = casper_open,
	.release = casper_release,
	.unlocked_ioctl = casper_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = casper_mmap,
	.poll = casper_poll,
};

static struct miscdevice casper_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "casper",
	.fops = &casper_fops,
	.mode = 0600,
};

static int __init casper_device_init(void)
{
	return misc_register(&casper_device);
}
device_initcall(casper_device_init);
